/**
 * The market summary as it is sent: the rows' texts and the indexes made once, so that reads have nothing to make.
 *
 * Rows are in the order of their ranks; `offsets` holds item ids and where each one's row ends, alternating. Amounts are dollar texts with
 * two decimals, halves up; the sum of scores is rounded once (DECISIONS.md, "Liquidity"). What is not known is null.
 * Yields to the event loop in between: 40,000 rows take some hundred milliseconds, and other roles share the process.
 */
import { promisify } from 'node:util'
import { constants, crc32, deflateRaw } from 'node:zlib'
import type { z } from 'zod'
import { nextTurn } from '#infra/runtime/turns.ts'
import type { marketItemsReply } from '#schemas/api/market.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { formatInstant, type Instant } from '#schemas/values/instant.ts'
import { type MicroUsd, toUsdText } from '#schemas/values/money.ts'
import type { ItemFigures } from './summarise.ts'
import type { MarketIndex, SummaryFacts } from './table.ts'

const ROWS_PER_TURN = 2_000
const LEVEL = 4

const deflate = promisify(deflateRaw) as (text: Buffer, options: object) => Promise<Buffer>

/** A version of the summary of items at a moment: `rows` is raw deflate that ends in a full flush. */
export async function summaryBody(
  items: readonly SummarisedItem[],
  asOf: Instant,
): Promise<{ facts: SummaryFacts; values: Record<'rows' | 'offsets', Uint8Array> }> {
  const ranked = byRank(items)
  const parts: Buffer[] = []
  const offsets = new Uint32Array(ranked.length * 2)
  let bytes = 0
  for (let from = 0; from < ranked.length; from += ROWS_PER_TURN) {
    for (const [i, one] of ranked.slice(from, from + ROWS_PER_TURN).entries()) {
      const rank = from + i + 1
      const { item_id, market_hash_name, phase } = one.item
      const summary = shownSummary(one.figures, { supply: one.supply, rank, asOf })
      const text = JSON.stringify({ item_id, market_hash_name, phase, rank, summary })
      const row = Buffer.from(rank === 1 ? text : `,${text}`)
      parts.push(row)
      bytes += row.length
      offsets.set([item_id, bytes], (rank - 1) * 2)
    }
    await nextTurn()
  }
  const text = Buffer.concat(parts, bytes)
  const deflated = await deflate(text, { level: LEVEL, finishFlush: constants.Z_FULL_FLUSH })
  return {
    facts: {
      bytes,
      crc: crc32(text),
      indexes: { item_type: indexBy('item_type', items), weapon_type: indexBy('weapon_type', items) },
    },
    values: { rows: deflated, offsets: Buffer.from(offsets.buffer) },
  }
}

/** Micro-dollars times units as a text in dollars. */
export const marketcapText = (micro: bigint): string => {
  const cents = (micro + 5_000n) / 10_000n
  return `${cents / 100n}.${String(cents % 100n).padStart(2, '0')}`
}

const marketcapOf = (figures: ItemFigures, supply: number | null): bigint | undefined =>
  figures.ask === null || supply === null ? undefined : BigInt(figures.ask) * BigInt(supply)

const twoDecimals = (value: number): number => Math.round(value * 100) / 100

/** A price against an earlier one: the difference as a text in dollars, and as a percentage of the earlier. */
interface PriceChange {
  diff: string | null
  rate: number | null
}

export function changeSince(now: MicroUsd | null, then: MicroUsd | null): PriceChange {
  if (now === null || then === null || then === 0) return { diff: null, rate: null }
  return { diff: toUsdText(now - then), rate: percentOf(now - then, then) }
}

/**
 * One amount in percent of another, to two decimals, halves up. Multiplied before it is divided: the product of whole numbers
 * is exact, so that a half is one, where a fraction times 100 may lie beside it.
 */
export const percentOf = (part: MicroUsd, whole: MicroUsd): number => Math.round((part * 10_000) / whole) / 100

const textOf = (micro: MicroUsd | null): string | null => (micro === null ? null : toUsdText(micro))
const roundedOf = (score: number | null): number | null => (score === null ? null : Math.round(score))

/** The composite liquidity score: the rounded sum of the unrounded parts, within 0 and 100. */
function liquidityOf({ scores }: ItemFigures): number | null {
  if (scores.listing === null) return null
  const sum = Object.values(scores).reduce<number>((all, part) => all + (part ?? 0), 0)
  return Math.min(100, Math.max(0, Math.round(sum)))
}

function shownSummary(
  figures: ItemFigures,
  { supply, rank, asOf }: { supply: number | null; rank: number; asOf: Instant },
): z.infer<typeof marketItemsReply>['data']['items'][number]['summary'] {
  const { ask, bid, providers, spreadPct, pastAsks, units, scores } = figures
  const [day, week, month] = pastAsks.map(then => changeSince(ask, then)) as [PriceChange, PriceChange, PriceChange]
  const marketcap = marketcapOf(figures, supply)
  return {
    best_ask_usd: textOf(ask),
    best_bid_usd: textOf(bid),
    marketcap: marketcap === undefined ? null : marketcapText(marketcap),
    supply,
    price_diff_24h: day.diff,
    price_rate_24h: day.rate,
    sales_1d: units[0],
    liquidity: liquidityOf(figures),
    listing_score: roundedOf(scores.listing),
    gap_score: roundedOf(scores.gap),
    volume_score: roundedOf(scores.volume),
    stability_score: roundedOf(scores.stability),
    external_score: roundedOf(scores.external),
    provider_count: providers,
    avg_spread_pct: spreadPct === null ? null : twoDecimals(spreadPct),
    total_volume_24h: units[0],
    rank,
    price_rate_7d: week.rate,
    price_diff_7d: week.diff,
    price_rate_30d: month.rate,
    price_diff_30d: month.diff,
    sales_7d: units[1],
    sales_30d: units[2],
    liquidity_last_updated: formatInstant(asOf),
  }
}

export interface SummarisedItem {
  item: CatalogItem
  figures: ItemFigures
  supply: number | null
}

/** Items by marketcap descending, then those without one; ties by item id. */
function byRank(items: readonly SummarisedItem[]): SummarisedItem[] {
  const keyed = items.map(one => ({ one, marketcap: marketcapOf(one.figures, one.supply) ?? -1n }))
  keyed.sort((a, b) => Number(b.marketcap - a.marketcap) || a.one.item.item_id - b.one.item.item_id)
  return keyed.map(({ one }) => one)
}

/** Above this spread an item is left out of indexes (DECISIONS.md, "Market items"). */
const WIDEST_SPREAD = 0.5
const NO_CATEGORY = 'Other'

/** Whether an item counts in an index: it has ask, bid and supply, and its spread is no wider than half the ask. */
function isIndexed({ figures, supply }: SummarisedItem): boolean {
  const { ask, bid } = figures
  return ask !== null && bid !== null && supply !== null && (ask - bid) / ask <= WIDEST_SPREAD
}

function indexBy(category: 'item_type' | 'weapon_type', items: readonly SummarisedItem[]): MarketIndex {
  const groups = Map.groupBy(items, ({ item }) => item[category] ?? NO_CATEGORY)
  const counted = [...groups].map(([group, members]) => {
    const included = members.filter(isIndexed)
    const marketcap = included.reduce((sum, { figures, supply }) => sum + (marketcapOf(figures, supply) ?? 0n), 0n)
    const counts = { included_count: included.length, excluded_count: members.length - included.length }
    return {
      marketcap,
      shown: { group, marketcap_usd: marketcapText(marketcap), item_count: members.length, ...counts },
    }
  })
  counted.sort((a, b) => Number(b.marketcap - a.marketcap) || (a.shown.group < b.shown.group ? -1 : 1))
  return {
    total_marketcap_usd: marketcapText(counted.reduce((sum, { marketcap }) => sum + marketcap, 0n)),
    groups: counted.map(({ shown }) => shown),
  }
}
