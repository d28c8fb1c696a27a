/**
 * Exchange rates of past days, for amounts of records of those days.
 *
 * Reads the ClickHouse table fx_days (writer: streams/fx). Invariant: an instant is converted at the
 * latest rate of its UTC day or of a day before, and before the first known day at the first known one;
 * without any rate the answer is a 503, never an unconverted amount. The dollar needs no table.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { formatDay } from '#schemas/values/instant.ts'
import { parseRate, type Rate, USD_RATE } from '#schemas/values/money.ts'
import type { FxDayRow } from '#schemas/views/clickhouse/fx-days.ts'
import { ratesUnavailable } from './fx-table.ts'

/** The rate of a currency at an instant. */
export type RateAt = (instant: number) => Rate

/** Reads what is needed to convert records from `from` on. */
export async function readRates(clickhouse: ClickhouseReader, currency: string, from: number): Promise<RateAt> {
  if (currency === 'USD') return () => USD_RATE
  const days = `${clickhouse.database}.fx_days`
  const rows = await clickhouse.rows<FxDayRow>(
    `SELECT toString(fx.day) AS day, rate FROM ${days} AS fx FINAL
    WHERE currency = {currency:String} AND fx.day >=
      (SELECT max(known.day) FROM ${days} AS known WHERE currency = {currency:String} AND known.day <= {from:Date})
    ORDER BY fx.day`,
    { currency, from: formatDay(from) },
  )
  const known = rows.flatMap(({ day, rate }) => {
    const parsed = parseRate(rate)
    return parsed ? [{ day, rate: parsed }] : []
  })
  const [first] = known
  if (!first) throw ratesUnavailable()
  return instant => (known[lastAtOrBefore(known, formatDay(instant))] ?? first).rate
}

function lastAtOrBefore(known: readonly { day: string }[], day: string): number {
  let [low, high] = [0, known.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((known[middle]?.day ?? '') <= day) low = middle + 1
    else high = middle
  }
  return low - 1
}
