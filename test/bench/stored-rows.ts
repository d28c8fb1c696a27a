/**
 * Counts the rows of a round in the tables of ClickHouse, by key.
 *
 * Merging makes one row of those of a key at a time of its own, so repeats count once. The sinks' metrics are not asked:
 * a row that was confirmed and is not there does not count.
 */
import { openWriter } from '#infra/clickhouse/clickhouse.ts'
import type { SinkRound } from './sink-turns.ts'

/** Sinks of ClickHouse that are measured. */
export type StoredSink = 'history' | 'candles'

/** Rows that a change makes: one in `changes` and one in `provider_days`; three parts and a current ask. */
export const ROWS_OF_A_CHANGE: Readonly<Record<StoredSink, number>> = { history: 2, candles: 4 }

/** What is counted as a row, where, and which rows are of the round. */
const COUNTED: Readonly<Record<StoredSink, readonly [key: string, table: string, condition: string][]>> = {
  history: [
    ['partition, offset', 'changes', 'seen_at >= fromUnixTimestamp64Milli({since:Int64})'],
    ['item_id, side, provider, day', 'provider_days', 'closing.version >= {first:Int64}'],
  ],
  candles: [
    ['item_id, provider', 'candle_standing', 'at >= {since:Int64}'],
    ['interval_s, item_id, bucket, provider', 'candle_parts', 'closing.at >= {since:Int64}'],
  ],
}

/** Rows of a round that a sink, or what it is measured against, has in its database. */
export async function storedRows(
  server: string,
  database: string,
  sink: StoredSink,
  { from, since, providers }: SinkRound,
): Promise<number> {
  const clickhouse = openWriter(server, { database, name: 'bench' })
  try {
    let rows = 0
    for (const [key, table, condition] of COUNTED[sink]) {
      const query = `SELECT uniqExact(${key}) AS n FROM ${database}.${table}
        WHERE provider IN {providers:Array(String)} AND ${condition}`
      const parameters = { providers, since, first: Math.min(...from) }
      const [row] = await clickhouse.rows<{ n: number }>(query, parameters)
      rows += Number(row?.n)
    }
    return rows
  } finally {
    await clickhouse.close()
  }
}
