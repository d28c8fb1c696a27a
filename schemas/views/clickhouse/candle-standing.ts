/**
 * candle_standing: every provider's newest ask for an item, or the last one and when it was withdrawn.
 * Writer: streams/candles.
 *
 * It holds what is listed in a window in which a provider changed nothing and of which all parts before
 * are gone. Invariant: `version` is the offset of the change, so the newest row of a key wins in
 * whatever order rows arrive. Kept for ever: one row per item and provider.
 */
import type { StandingAsk } from '../candle.ts'
import type { Table } from './table.ts'

/** The table's definition. */
export const candleStanding: Table = {
  name: 'candle_standing',
  writer: 'candles',
  columns: {
    item_id: 'UInt32',
    provider: 'LowCardinality(String)',
    standing: 'Bool',
    micro: 'Int64',
    quantity: 'Int32',
    at: 'Int64',
    version: 'UInt64',
  },
  engine: 'ReplacingMergeTree(version)',
  orderBy: '(item_id, provider)',
  partitionBy: 'tuple()',
  granularity: 256,
  isCompact: true,
}

/**
 * Reads of an item (parameter `item_id`) the newest asks that were there before a time (`before_ms`) as {@link StandingAsk}.
 *
 * All that a window from then on needs: of a provider that has changed since, a part holds more. By FINAL and with the asks of
 * now it took 6 ms of the server's CPU, 3 of them to merge and write what is not used.
 */
export function selectCandleStanding(database: string): string {
  const members = (['standing', 'micro', 'quantity', 'at'] as const).map(
    member => `argMax(asks.${member}, asks.version) AS ${member}`,
  )
  return `SELECT provider, ${members.join(', ')} FROM ${database}.candle_standing AS asks
  PREWHERE item_id = {item_id:UInt32} AND asks.at < {before_ms:Int64} GROUP BY provider SETTINGS max_threads = 1`
}

/** A row that {@link selectCandleStanding} answers. */
export type CandleStandingRow = StandingAsk
