/**
 * Reads the exchange rates: those in force, kept in memory, and those of past days.
 *
 * The rates in force are read once a second. Invariant: the table in memory is at most that much older than the view. While the view
 * may not be read there is none: an amount is then refused, never guessed. While ClickHouse is unreachable the last table stays, since
 * rates come about once a day and carry their own time.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { Log } from '#infra/runtime/log.ts'
import { DAY_MS, formatDay, type Instant } from '#schemas/values/instant.ts'
import { parseRate, type Rate, USD_RATE } from '#schemas/values/money.ts'
import { ViewIncomplete } from '#streams/runner/whole-tables.ts'

export interface FxTable {
  asOf: Instant
  rates: ReadonlyMap<string, Rate>
}

export type FxReader = Awaited<ReturnType<typeof openFxReader>>

const EVERY_MS = 1_000

/** Follows the rates in force; resolves after the first read, whether or not it found any. */
export async function openFxReader(clickhouse: ClickhouseReader, log: Log) {
  let table: FxTable | undefined
  let isReading = false

  async function poll(): Promise<void> {
    if (isReading) return
    isReading = true
    try {
      table = await readInForce(clickhouse)
    } catch (error) {
      if (error instanceof ViewIncomplete) table = undefined
      else log.warn({ err: error }, 'exchange rates could not be read')
    }
    isReading = false
  }

  await poll()
  const timer = setInterval(() => void poll(), EVERY_MS)
  return {
    current: (): FxTable | undefined => table,
    stop: () => clearInterval(timer),
  }
}

async function readInForce(clickhouse: ClickhouseReader): Promise<FxTable | undefined> {
  const days = `${clickhouse.database}.fx_days`
  const rows = await clickhouse.rows<{ currency: string; rate: string; as_of: number }>(
    `SELECT currency, rate, toUnixTimestamp64Milli(fx.as_of) AS as_of FROM ${days} AS fx FINAL
    WHERE (fx.day, fx.as_of) = (SELECT max((last.day, last.as_of)) FROM ${days} AS last) ORDER BY currency`,
  )
  const [first] = rows
  if (first === undefined) return undefined
  const rates = rows.flatMap(({ currency, rate }): [string, Rate][] => {
    const parsed = parseRate(rate)
    return parsed ? [[currency, parsed]] : []
  })
  return { asOf: first.as_of, rates: new Map(rates) }
}

export type RateAt = (instant: Instant) => Rate

/**
 * Reads what is needed to convert records from `from` on: an instant at the latest rate of its UTC day or of a day before,
 * and before the first known day at the first known one. Undefined when there is no rate at all; the dollar needs none.
 */
export async function readDayRates(
  clickhouse: ClickhouseReader,
  currency: string,
  from: Instant,
): Promise<RateAt | undefined> {
  if (currency === 'USD') return () => USD_RATE
  const days = `${clickhouse.database}.fx_days`
  const rows = await clickhouse.rows<{ day: number; rate: string }>(
    `SELECT toInt32(fx.day) AS day, rate FROM ${days} AS fx FINAL
    WHERE currency = {currency:String} AND fx.day >=
      (SELECT max(known.day) FROM ${days} AS known WHERE currency = {currency:String} AND known.day <= {from:Date})
    ORDER BY fx.day`,
    { currency, from: formatDay(from) },
  )
  // One of each day, found at once: a ledger asks for two rates of each of 250,000 trades.
  const rates: Rate[] = []
  let firstDay = 0
  for (const { day, rate: text } of rows) {
    const rate = parseRate(text)
    if (!rate) continue
    if (rates.length === 0) firstDay = day
    while (rates.length < day - firstDay) rates.push(rates.at(-1) as Rate)
    rates.push(rate)
  }
  if (rates.length === 0) return undefined
  return instant => {
    const day = Math.floor(instant / DAY_MS) - firstDay
    return rates[Math.min(Math.max(day, 0), rates.length - 1)] as Rate
  }
}
