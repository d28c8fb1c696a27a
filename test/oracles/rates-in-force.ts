/** The exchange rates in force, by a query of its own. */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'

/** Code → rate of the newest table of all, and its time; undefined: there is none. */
export async function ratesInForce(
  client: Pick<ClickhouseReader, 'rows' | 'database'>,
): Promise<{ as_of: number; rates: Record<string, string> } | undefined> {
  const rows = await client.rows<{ currency: string; rate: string; at: number }>(
    `SELECT currency, argMax(rate, as_of) AS rate, toUnixTimestamp64Milli(max(as_of)) AS at
    FROM ${client.database}.fx_days GROUP BY currency`,
  )
  if (rows.length === 0) return undefined
  const as_of = Math.max(...rows.map(({ at }) => at))
  return {
    as_of,
    rates: Object.fromEntries(rows.filter(({ at }) => at === as_of).map(({ currency, rate }) => [currency, rate])),
  }
}
