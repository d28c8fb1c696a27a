/**
 * The current exchange rates, kept in memory.
 *
 * Reads the Redis key of streams/fx once a second. Invariant: the table is at most that much older than
 * the key, and an absent key means that there is none: an amount is then refused, never guessed. While Redis is
 * unreachable the last table stays, since rates come about once a day and carry their own time.
 */
import { HttpError } from '#infra/http/http-error.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { AnswerCurrency } from '#schemas/api/entry-text.ts'
import { parseRate, type Rate, USD_RATE } from '#schemas/values/money.ts'

/** The rates in force. */
export interface FxTable {
  asOf: number
  /** Code → units per US dollar, by code. */
  rates: ReadonlyMap<string, Rate>
}

/** The newest known table. */
export interface FxReader {
  current(): FxTable | undefined
  /** Whether a request may name this code; without a table any code of the right form, whose request then fails with a 503. */
  isCurrency(code: string): boolean
  /** A currency with its rate; throws the 503 when there is no table. */
  currencyOf(code: string): AnswerCurrency
  /** Reads the key now. */
  refresh(): Promise<void>
  stop(): void
}

const EVERY_MS = 1_000
const CODE_FORM = /^[A-Z][A-Z0-9]{1,9}$/

/** Follows the table; resolves after the first read, whether or not it found one. */
export async function openFxReader(redis: Redis, key: string, log: Log): Promise<FxReader> {
  let text: string | null = null
  let table: FxTable | undefined
  let isReading = false

  async function refresh(): Promise<void> {
    const found = await redis.get(key)
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
    isCurrency: code => code === 'USD' || (table ? table.rates.has(code) : CODE_FORM.test(code)),
    currencyOf(code) {
      const rate = code === 'USD' ? USD_RATE : table?.rates.get(code)
      if (!rate) throw ratesUnavailable()
      return { code, rate }
    },
    refresh,
    stop: () => clearInterval(timer),
  }
}

/** The 503 for an amount that cannot be converted now. */
export const ratesUnavailable = (): HttpError =>
  new HttpError('SERVICE_UNAVAILABLE', 'Exchange rates are temporarily unavailable; USD needs none.')

function parseTable(text: string): FxTable {
  const { as_of, rates } = JSON.parse(text) as { as_of: number; rates: Record<string, string> }
  const parsed = Object.entries(rates)
    .map(([code, rate]) => [code, parseRate(rate)] as const)
    .filter((entry): entry is [string, Rate] => entry[1] !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1))
  return { asOf: as_of, rates: new Map(parsed) }
}
