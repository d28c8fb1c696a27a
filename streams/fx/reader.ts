/**
 * Reads the exchange rates: those in force, kept in memory, and those of past days.
 *
 * The key in Redis is read once a second. Invariant: the table in memory is at most that much older than the key. An
 * absent key means that there is none, and so does a view that lacks what it once reflected: an amount is then refused, never
 * guessed. While Redis is unreachable the last table stays, since rates come about once a day and carry their own time.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { Log } from '#infra/runtime/log.ts'
import { formatDay, type Instant } from '#schemas/values/instant.ts'
import { parseRate, type Rate, USD_RATE } from '#schemas/values/money.ts'
import { openReadJudge, parsePosition } from '#streams/runner/positions.ts'
import { type FxCurrent, fxCurrentKey, fxPositionKey } from './table.ts'

/** The rates in force. */
export interface FxTable {
  asOf: Instant
  /** Code → units per US dollar, by code. */
  rates: ReadonlyMap<string, Rate>
}

/** The newest known table. */
export interface FxReader {
  current(): FxTable | undefined
  /** Reads the key now. */
  refresh(): Promise<void>
  stop(): void
}

const EVERY_MS = 1_000

/** Follows the table; resolves after the first read, whether or not it found one. */
export async function openFxReader(redis: Redis, prefix: string, log: Log): Promise<FxReader> {
  const keys = [fxCurrentKey(prefix), fxPositionKey(prefix)]
  const judge = openReadJudge()
  let text: string | null = null
  let table: FxTable | undefined
  let isReading = false

  async function refresh(): Promise<void> {
    const [current = null, stored = null] = await redis.mget(keys)
    const found = judge(parsePosition(stored)) === undefined ? current : null
    if (found === text) return
    table = found === null ? undefined : parseTable(found)
    text = found
  }
  async function poll(): Promise<void> {
    if (isReading || redis.status !== 'ready') return
    isReading = true
    await refresh().catch(error => log.warn({ err: error }, 'exchange rates could not be read'))
    isReading = false
  }

  await poll()
  const timer = setInterval(() => void poll(), EVERY_MS)
  return {
    current: () => table,
    refresh,
    stop: () => clearInterval(timer),
  }
}

function parseTable(text: string): FxTable {
  const { as_of, rates } = JSON.parse(text) as FxCurrent
  const parsed = Object.entries(rates)
    .map(([code, rate]) => [code, parseRate(rate)] as const)
    .filter((entry): entry is [string, Rate] => entry[1] !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
  return { asOf: as_of, rates: new Map(parsed) }
}

/** The rate of a currency at an instant. */
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
  const rows = await clickhouse.rows<{ day: string; rate: string }>(
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
  if (!first) return undefined
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
