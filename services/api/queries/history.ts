/**
 * The observed asks of items, newest first.
 *
 * Reads the ClickHouse table changes (writer: streams/history). Invariant: the order is total
 * (time, item, provider, position in the log), so a cursor continues exactly where a page ended, whatever
 * was inserted meanwhile. Withdrawals carry no price and are left out.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { CHANGES_RETENTION_DAYS, type ChangeRow } from '#schemas/views/clickhouse/changes.ts'
import type { CursorPosition } from '../cursors.ts'

/** A stored ask. */
export type ObservedAsk = Pick<
  ChangeRow,
  'item_id' | 'seen_at' | 'provider' | 'currency' | 'quantity' | 'partition' | 'offset'
> & { price: number; price_micro_usd: number }

/** What is asked for. */
export interface HistoryScan {
  itemIds: readonly number[]
  provider: string | undefined
  start: number
  end: number
  limit: number
  after: CursorPosition['after'] | undefined
}

const DAY_MS = 86_400_000
const DEFAULT_WINDOW_MS = 14 * DAY_MS

/** The window of a request at a time: 14 days by default, and never beyond the retention. */
export function historyWindow(given: { start?: number; end?: number }, now: number): { start: number; end: number } {
  const end = given.end ?? now
  const start = given.start ?? end - DEFAULT_WINDOW_MS
  return { start: Math.max(start, now - CHANGES_RETENTION_DAYS * DAY_MS), end }
}

/** Reads up to `limit` asks and whether more follow. */
export async function readHistory(
  clickhouse: ClickhouseReader,
  scan: HistoryScan,
): Promise<{ asks: ObservedAsk[]; hasNext: boolean }> {
  const { itemIds, provider, start, end, limit, after } = scan
  const order = 'seen_at DESC, item_id DESC, provider DESC, partition DESC, offset DESC'
  const isProvider = provider === undefined ? '' : 'AND provider = {provider:String}'
  const isAfter = after === undefined ? '' : AFTER
  const found = await clickhouse.rows<ObservedAsk>(
    `SELECT item_id, toUnixTimestamp64Milli(seen_at) AS seen_at, provider, price, currency, price_micro_usd,
      quantity, partition, offset
    FROM (SELECT * FROM ${clickhouse.database}.changes FINAL
      WHERE item_id IN {items:Array(UInt32)} AND side = 'ask' AND change != 'removed'
        AND seen_at >= fromUnixTimestamp64Milli({start:Int64}, 'UTC')
        AND seen_at < fromUnixTimestamp64Milli({end:Int64}, 'UTC')
        ${isProvider} ${isAfter}
      ORDER BY ${order} LIMIT {count:UInt32})
    ORDER BY ${order}`,
    {
      ...{ items: itemIds, start, end, count: limit + 1 },
      ...(provider !== undefined && { provider }),
      ...(after && Object.fromEntries(['at', 'item', 'key', 'partition', 'offset'].map((name, i) => [name, after[i]]))),
    },
  )
  return { asks: found.slice(0, limit), hasNext: found.length > limit }
}

/** With the first comparison alone the server skips what the tuple would make it read. */
const AFTER = `AND seen_at <= fromUnixTimestamp64Milli({at:Int64}, 'UTC')
  AND (seen_at, item_id, provider, partition, offset) <
    (fromUnixTimestamp64Milli({at:Int64}, 'UTC'), {item:UInt32}, {key:String}, {partition:UInt16}, {offset:UInt64})`

/** The sort key of an ask, for a cursor. */
export const historyKey = (ask: ObservedAsk): CursorPosition['after'] => [
  ask.seen_at,
  ask.item_id,
  ask.provider,
  ask.partition,
  ask.offset,
]
