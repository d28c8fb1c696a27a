/**
 * A page of the arbitrage snapshot, and its text.
 *
 * Reads a snapshot in memory. Invariant: pages of one snapshot are ranges of one order, which filters thin out and time
 * does not change: a row whose older leg has passed the age limit since it was computed is left out of its page, and no
 * other replaces it, so a client that pages gets no row twice and misses none.
 */
import type { ProviderRegistry } from '#infra/config/providers.ts'
import { HttpError } from '#infra/http/http-error.ts'
import type { JsonText } from '#infra/runtime/json-text.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import type { ArbitrageQuery } from '#schemas/api/arbitrage.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { toUsdText } from '#schemas/values/money.ts'
import {
  ARBITRAGE_SNAPSHOT_LIMIT_MS,
  type ArbitrageColumns,
  type ArbitrageFees,
  type ArbitrageView,
  arbitrageAmounts,
  type ExcludedQuotes,
  freshUntil,
} from '#streams/market-summary/reader.ts'
import { type ApiContext, NO_ARBITRAGE } from '../context.ts'

/** Rows of a snapshot, best first, and whether more follow. */
interface ArbitragePage {
  rows: number[]
  hasNext: boolean
}

/** The snapshot to answer from; throws the 503 when there is none, or when it is too old. */
export async function currentArbitrage({ readArbitrage, now }: ApiContext): Promise<ArbitrageView> {
  const view = await readArbitrage()
  if (view && now() - view.asOf <= ARBITRAGE_SNAPSHOT_LIMIT_MS) return view
  throw new HttpError('SERVICE_UNAVAILABLE', NO_ARBITRAGE)
}

export function arbitragePage(view: ArbitrageView, query: ArbitrageQuery, now: number): ArbitragePage {
  const { providers, columns, asOf } = view
  const { buyMicroUsd, sellMicroUsd, buyProvider, sellProvider } = columns
  const isBuyer = wanted(providers, query.providers_buy)
  const isSeller = wanted(providers, query.providers_sell)
  const some = rowsOf(columns, { buyProvider: isBuyer, sellProvider: isSeller })
  const least = query.min_spread_pct / 100
  const end = query.offset + query.limit
  const count = some?.length ?? columns.rows
  const rows: number[] = []
  // Every pair leaves a profit, so without a filter all rows match and those before the page are skipped.
  const isFiltered = least > 0 || isBuyer.includes(0) || isSeller.includes(0)
  let matched = isFiltered ? 0 : query.offset
  for (let i = matched; i < count; i++) {
    const row = some ? (some[i] as number) : i
    const buy = buyMicroUsd[row] as number
    if ((sellMicroUsd[row] as number) - buy < least * buy) continue
    if (isBuyer[buyProvider[row] as number] === 0 || isSeller[sellProvider[row] as number] === 0) continue
    if (matched === end) return { rows, hasNext: true }
    if (matched >= query.offset && now <= freshUntil(columns, row, asOf)) rows.push(row)
    matched += 1
  }
  return { rows, hasNext: false }
}

const LEGS = ['buyProvider', 'sellProvider'] as const
type Leg = (typeof LEGS)[number]

/** Rows by provider, of the snapshots and legs that were asked for. */
const indexes = new WeakMap<ArbitrageColumns, Partial<Record<Leg, Uint32Array[]>>>()
/** Rows are looked up where that leaves at most this share of them; with more, merging costs what it saves. */
const LOOKED_UP_SHARE = 1 / 3

/**
 * In order the rows whose buyer, or seller, whichever leaves fewer, is one of those wanted; undefined when those are too many.
 *
 * A page for one provider of 340,000 rows: 0.1 ms instead of 1.5. The index of a leg is made once for each snapshot, in 2 ms.
 */
function rowsOf(columns: ArbitrageColumns, isWanted: Readonly<Record<Leg, Uint8Array>>): Uint32Array | undefined {
  let fewest: { lists: Uint32Array[]; count: number } | undefined
  for (const leg of LEGS.filter(leg => isWanted[leg].includes(0))) {
    const lists = indexOf(columns, leg, isWanted[leg].length).filter((_, provider) => isWanted[leg][provider] === 1)
    const count = lists.reduce((sum, { length }) => sum + length, 0)
    if (count <= (fewest?.count ?? columns.rows * LOOKED_UP_SHARE)) fewest = { lists, count }
  }
  return fewest?.lists.reduce(merged, new Uint32Array(0))
}

function indexOf(columns: ArbitrageColumns, leg: Leg, providers: number): Uint32Array[] {
  const known = indexes.get(columns) ?? {}
  indexes.set(columns, known)
  known[leg] ??= rowsByProvider(columns[leg], providers)
  return known[leg]
}

function rowsByProvider(providers: Uint16Array, count: number): Uint32Array[] {
  const lengths = new Uint32Array(count)
  for (const provider of providers) lengths[provider] = (lengths[provider] as number) + 1
  const lists = Array.from(lengths, length => new Uint32Array(length))
  const filled = new Uint32Array(count)
  for (let row = 0; row < providers.length; row++) {
    const provider = providers[row] as number
    const at = filled[provider] as number
    ;(lists[provider] as Uint32Array)[at] = row
    filled[provider] = at + 1
  }
  return lists
}

/** Two ascending lists as one. */
function merged(one: Uint32Array, other: Uint32Array): Uint32Array {
  if (one.length === 0) return other
  const all = new Uint32Array(one.length + other.length)
  for (let i = 0, j = 0, at = 0; at < all.length; at++) {
    const isOne = j === other.length || (i < one.length && (one[i] as number) < (other[j] as number))
    all[at] = (isOne ? one[i++] : other[j++]) as number
  }
  return all
}

const wanted = (providers: readonly string[], chosen: readonly string[] | undefined): Uint8Array =>
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

const dollars = (cents: number): string => `${Math.floor(cents / 100)}.${cents % 100 < 10 ? '0' : ''}${cents % 100}`

/**
 * Writes the pairs of some rows with commas between; those of items that the catalog lacks are left out. The text is that of the zod
 * schema (schemas/api/arbitrage.ts); as objects for JSON.stringify a page of 1,000 took twice as long. Texts that rows share are made
 * once: most legs were last updated by the same few refreshes.
 */
export function writePairs(
  to: JsonText,
  { providers, columns, asOf }: ArbitrageView,
  rows: readonly number[],
  { catalog, fees }: { catalog: Pick<CatalogReader, 'byId'>; fees: ReadonlyMap<string, ArbitrageFees> },
): void {
  const names = providers.map(key => JSON.stringify(key))
  const feesOf = providers.map(key => fees.get(key) ?? { buy: 0, sell: 0 })
  const times = new Map<number, string>()
  const timeOf = (at: number): string => {
    const text = times.get(at) ?? formatInstant(at)
    times.set(at, text)
    return text
  }
  let isFirst = true
  for (const row of rows) {
    const item = catalog.byId(columns.itemId[row] as number)
    if (!item) continue
    const { item_id, market_hash_name, phase } = item
    const [buy, sell] = [columns.buyMicroUsd[row] as number, columns.sellMicroUsd[row] as number]
    const [buyer, seller] = [columns.buyProvider[row] as number, columns.sellProvider[row] as number]
    const { estimatedFeesCents, netProfitCents, grossSpreadPct } = arbitrageAmounts(buy, sell, {
      buy: feesOf[buyer]?.buy ?? 0,
      sell: feesOf[seller]?.sell ?? 0,
    })
    const buyUpdated = asOf - (columns.buyAgeMs[row] as number)
    const sellUpdated = asOf - (columns.sellAgeMs[row] as number)
    to.text(
      `${isFirst ? '' : ','}${JSON.stringify({ item_id, market_hash_name, phase }).slice(0, -1)},` +
        `"buy_provider":${names[buyer]},"sell_provider":${names[seller]},` +
        `"buy_price_usd":"${toUsdText(buy)}","sell_price_usd":"${toUsdText(sell)}",` +
        `"estimated_fees_usd":"${dollars(estimatedFeesCents)}","net_profit_usd":"${dollars(netProfitCents)}",` +
        `"gross_spread_pct":${grossSpreadPct},"quantity":${columns.quantity[row]},` +
        `"last_updated":"${timeOf(Math.max(buyUpdated, sellUpdated))}",` +
        `"buy_last_updated":"${timeOf(buyUpdated)}","sell_last_updated":"${timeOf(sellUpdated)}"}`,
    )
    isFirst = false
  }
}
