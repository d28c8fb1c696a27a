/** Written from DECISIONS.md, "Candle prices". A provider's changes of an item are in their order; those of different providers may be in any. */
import { DAY_MS, HOUR_MS } from '#schemas/values/instant.ts'
import type { LedgerEntry } from '#test/harness/ledger.ts'
import type { ExpectedChange } from '#test/harness/reference-fold.ts'

/** The widths of the three intervals: five minutes, an hour, a day. */
const BUCKETS_MS = [300_000, HOUR_MS, DAY_MS] as const

/** What each provider's ask for an item did in each bucket in which it changed; keys and columns as {@link selectPartRows}. */
export function partEntries(asks: readonly ExpectedChange[]): LedgerEntry[] {
  const entries: LedgerEntry[] = []
  for (const ms of BUCKETS_MS) {
    const parts = Map.groupBy(asks, ask => `${ms / 1000}|${ask.item_id}|${bucketOf(ask.seen_at, ms)}|${ask.provider}`)
    for (const [key, changes] of parts) {
      const first = changes[0] as ExpectedChange
      const last = changes.at(-1) as ExpectedChange
      const amounts = changes.flatMap(change => [change.previous_micro_usd, change.price_micro_usd])
      const prices = amounts.filter(micro => micro !== null)
      const falls = changes.reduce((sum, change) => sum + Math.max(0, change.previous_quantity - change.quantity), 0)
      const opening = [first.previous_micro_usd !== null, first.previous_micro_usd ?? first.price_micro_usd]
      const closing = [last.price_micro_usd !== null, last.price_micro_usd ?? last.previous_micro_usd]
      const edges = [...opening, first.previous_quantity, first.seen_at, ...closing, last.quantity, last.seen_at]
      entries.push({ key, what: [...edges, Math.min(...prices), Math.max(...prices), falls].join(' ') })
    }
  }
  return entries
}

const bucketOf = (time: number, ms: number): number => (Math.floor(time / ms) * ms) / 1000

/** Reads the parts, merged: four columns of the key, then the rest. */
export function selectPartRows(database: string, condition = 'true'): string {
  const edge = (name: string) =>
    ['standing', 'micro', 'quantity', 'at'].map(member => `merged_${name}.${member}`).join(', ')
  return `SELECT interval_s, item_id, bucket_s, provider, ${edge('opening')}, ${edge('closing')},
  merged_low, merged_high, merged_falls
  FROM (
    SELECT interval_s, item_id, toUnixTimestamp(bucket) AS bucket_s, provider,
    min(opening) AS merged_opening, max(closing) AS merged_closing, min(low) AS merged_low, max(high) AS merged_high,
    arraySum(mapValues(maxMap(falls))) AS merged_falls
    FROM ${database}.candle_parts WHERE ${condition} GROUP BY interval_s, item_id, bucket_s, provider
  )`
}

/** Each provider's newest ask for an item, or the last one and when it went; keys and columns as {@link selectStandingRows}. */
export function standingEntries(asks: readonly ExpectedChange[]): LedgerEntry[] {
  const last = new Map(asks.map(ask => [`${ask.provider}|${ask.item_id}`, ask]))
  return [...last].map(([key, { price_micro_usd, previous_micro_usd, quantity, seen_at }]) => ({
    key,
    what: [price_micro_usd !== null, price_micro_usd ?? previous_micro_usd, quantity, seen_at].join(' '),
  }))
}

/** Reads each provider's newest ask for an item: two columns of the key, then the rest. */
export const selectStandingRows = (database: string, condition = 'true'): string =>
  `SELECT provider, item_id, standing, micro, quantity, at FROM ${database}.candle_standing FINAL WHERE ${condition}`
