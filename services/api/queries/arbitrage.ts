/**
 * A page of the arbitrage snapshot.
 *
 * Reads a snapshot in memory. Invariant: pages of one snapshot are ranges of one order, which filters thin out and time
 * does not change: a row whose older leg has passed the age limit since it was computed is left out of its page, and no
 * other replaces it, so a client that pages gets no row twice and misses none.
 */
import type { z } from 'zod'
import type { ProviderRegistry } from '#infra/config/providers.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import type { ArbitrageQuery, arbitrageReply } from '#schemas/api/arbitrage.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { toUsdText } from '#schemas/values/money.ts'
import {
  type ArbitrageFees,
  type ArbitrageView,
  arbitrageAmounts,
  type ExcludedQuotes,
  freshUntil,
} from '#streams/market-summary/reader.ts'
import { itemNames } from './listing.ts'

/** Rows of a page, best first, whether more follow, and the last moment at which all that, and how many seconds old it is, is the same. */
export function arbitragePage(view: ArbitrageView, query: ArbitrageQuery, now: number) {
  const { providers, columns, asOf } = view
  const { buyMicroUsd, sellMicroUsd, buyProvider, sellProvider } = columns
  const isBuyer = chosenOf(providers, query.providers_buy)
  const isSeller = chosenOf(providers, query.providers_sell)
  const least = query.min_spread_pct / 100
  const end = query.offset + query.limit
  const rows: number[] = []
  let hasNext = false
  // Every pair leaves a profit, so without a filter all rows match and those before the page are skipped.
  const isFiltered = least > 0 || isBuyer.includes(0) || isSeller.includes(0)
  let matched = isFiltered ? 0 : query.offset
  for (let row = matched; row < columns.rows; row++) {
    if (isBuyer[buyProvider[row] as number] === 0 || isSeller[sellProvider[row] as number] === 0) continue
    const buy = buyMicroUsd[row] as number
    if ((sellMicroUsd[row] as number) - buy < least * buy) continue
    hasNext = matched === end
    if (hasNext) break
    if (matched >= query.offset && now <= freshUntil(columns, row, asOf)) rows.push(row)
    matched += 1
  }
  const secondEnds = asOf + Math.floor(Math.max(0, now - asOf) / 1000) * 1000 + 999
  return { rows, hasNext, until: Math.min(secondEnds, ...rows.map(row => freshUntil(columns, row, asOf))) }
}

/** By the number that rows carry: 1 for providers that a request asks about. */
const chosenOf = (providers: readonly string[], chosen: readonly string[] | undefined): Uint8Array =>
  Uint8Array.from(providers, key => (chosen === undefined || chosen.includes(key) ? 1 : 0))

/** Quotes that took no part, of the providers that a request asks about. */
export function excludedQuotes(
  { excluded }: Pick<ArbitrageView, 'excluded'>,
  query: ArbitrageQuery,
  registry: ProviderRegistry,
): ExcludedQuotes {
  const sum: ExcludedQuotes = { stale: 0, down: 0, quarantined: 0 }
  const add = (side: Side, keys: readonly string[]): void => {
    for (const key of new Set(keys)) {
      const counts = excluded[side][key]
      sum.stale += counts?.stale ?? 0
      sum.down += counts?.down ?? 0
      sum.quarantined += counts?.quarantined ?? 0
    }
  }
  add('ask', query.providers_buy ?? registry.askKeys)
  add('bid', query.providers_sell ?? registry.bidKeys)
  return sum
}

const MICRO_PER_CENT = 10_000

/** The pairs of some rows; those of items that the catalog lacks are left out. */
export function arbitragePairs(
  { providers, columns, asOf }: ArbitrageView,
  rows: readonly number[],
  { catalog, fees }: { catalog: Pick<CatalogReader, 'byId'>; fees: ReadonlyMap<string, ArbitrageFees> },
): z.infer<typeof arbitrageReply>['data']['items'] {
  return rows.flatMap(row => {
    const item = catalog.byId(columns.itemId[row] as number)
    if (!item) return []
    const [buy, sell] = [columns.buyMicroUsd[row] as number, columns.sellMicroUsd[row] as number]
    const buyer = providers[columns.buyProvider[row] as number] as string
    const seller = providers[columns.sellProvider[row] as number] as string
    const { estimatedFeesCents, netProfitCents, grossSpreadPct } = arbitrageAmounts(buy, sell, {
      buy: fees.get(buyer)?.buy ?? 0,
      sell: fees.get(seller)?.sell ?? 0,
    })
    const buyUpdated = asOf - (columns.buyAgeMs[row] as number)
    const sellUpdated = asOf - (columns.sellAgeMs[row] as number)
    return {
      ...itemNames(item),
      buy_provider: buyer,
      sell_provider: seller,
      buy_price_usd: toUsdText(buy),
      sell_price_usd: toUsdText(sell),
      estimated_fees_usd: toUsdText(estimatedFeesCents * MICRO_PER_CENT),
      net_profit_usd: toUsdText(netProfitCents * MICRO_PER_CENT),
      gross_spread_pct: grossSpreadPct,
      quantity: columns.quantity[row] as number,
      last_updated: formatInstant(Math.max(buyUpdated, sellUpdated)),
      buy_last_updated: formatInstant(buyUpdated),
      sell_last_updated: formatInstant(sellUpdated),
    }
  })
}
