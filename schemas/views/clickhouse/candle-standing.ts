/**
 * candle_standing: every provider's newest ask for an item, or the last one and when it was withdrawn.
 * Writer: streams/candles.
 *
 * It tells what stands in a window in which a provider changed nothing and of which all parts before
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
}

/** Reads the newest asks of an item (parameter `item_id`) as {@link StandingAsk}. */
export function selectCandleStanding(database: string): string {
  return `SELECT provider, standing, micro, quantity, at FROM ${database}.candle_standing FINAL
  WHERE item_id = {item_id:UInt32}`
}

/** A row that {@link selectCandleStanding} answers. */
export type CandleStandingRow = StandingAsk
