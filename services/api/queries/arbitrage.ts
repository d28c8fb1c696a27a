/**
 * A page of the arbitrage snapshot.
 *
 * Reads a snapshot in memory. Invariant: pages of one snapshot are stretches of one order, which filters thin out and
 * time does not change: a row whose older leg has passed the age limit since it was computed is left out of its page, and
 * no other takes its place, so that a client who pages meets no row twice and misses none.
 */
import type { ProviderRegistry } from '#infra/config/providers.ts'
import type { ArbitrageQuery } from '#schemas/api/market.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { ARBITRAGE_SNAPSHOT_LIMIT_MS, isFresh } from '#schemas/views/arbitrage.ts'
import type { ExcludedQuotes } from '#schemas/views/market-keys.ts'
import { ApiError } from '../errors.ts'
import type { ArbitrageView, MarketViews } from './market-views.ts'

/** Rows of a snapshot, best first, and whether more follow. */
export interface ArbitragePage {
  rows: number[]
  hasNext: boolean
}

/** The snapshot to answer from; throws the 503 when there is none, or when it is too old. */
export function currentArbitrage(market: MarketViews, now: number): ArbitrageView {
  const view = market.arbitrage()
  if (view && now - view.head.as_of <= ARBITRAGE_SNAPSHOT_LIMIT_MS) return view
  throw new ApiError('SERVICE_UNAVAILABLE', 'No current arbitrage snapshot is available; retry in a few seconds.')
}

/** The rows of a page. */
export function arbitragePage({ head, columns }: ArbitrageView, query: ArbitrageQuery, now: number): ArbitragePage {
  const { buyMicroUsd, sellMicroUsd, buyProvider, sellProvider } = columns
  const isBuyer = wanted(head.providers, query.providers_buy)
  const isSeller = wanted(head.providers, query.providers_sell)
  const least = query.min_spread_pct / 100
  const end = query.offset + query.limit
  const rows: number[] = []
  let matched = 0
  for (let row = 0; row < columns.rows; row++) {
    const buy = buyMicroUsd[row] as number
    if ((sellMicroUsd[row] as number) - buy < least * buy) continue
    if (isBuyer[buyProvider[row] as number] === 0 || isSeller[sellProvider[row] as number] === 0) continue
    if (matched === end) return { rows, hasNext: true }
    if (matched >= query.offset && isFresh(columns, row, head.as_of, now)) rows.push(row)
    matched += 1
  }
  return { rows, hasNext: false }
}

const wanted = (providers: readonly string[], chosen: readonly string[] | undefined): Uint8Array =>
  Uint8Array.from(providers, key => (chosen === undefined || chosen.includes(key) ? 1 : 0))

/** Quotes that took no part, of the providers that a request asks about. */
export function excludedQuotes(
  { head }: ArbitrageView,
  query: ArbitrageQuery,
  registry: ProviderRegistry,
): ExcludedQuotes {
  const sum: ExcludedQuotes = { stale: 0, down: 0, quarantined: 0 }
  const add = (side: Side, keys: readonly string[]): void => {
    for (const key of new Set(keys)) {
      const counts = head.excluded[side][key]
      sum.stale += counts?.stale ?? 0
      sum.down += counts?.down ?? 0
      sum.quarantined += counts?.quarantined ?? 0
    }
  }
  add('ask', query.providers_buy ?? registry.askKeys)
  add('bid', query.providers_sell ?? registry.bidKeys)
  return sum
}
