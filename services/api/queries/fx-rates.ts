/**
 * Exchange rates as requests need them: without a rate the reply is a 503, never an unconverted amount.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { HttpError } from '#infra/http/http-error.ts'
import type { AnswerCurrency } from '#schemas/api/entry-text.ts'
import type { Instant } from '#schemas/values/instant.ts'
import { USD_RATE } from '#schemas/values/money.ts'
import { type FxReader, type RateAt, readDayRates } from '#streams/fx/reader.ts'

/** The rates in force, for requests. */
export interface FxRates extends FxReader {
  /** Whether a request may name this code; without a table any code of the right form, whose request then fails with a 503. */
  isCurrency(code: string): boolean
  /** A currency with its rate; throws the 503 when there is no table. */
  currencyOf(code: string): AnswerCurrency
}

const CODE_FORM = /^[A-Z][A-Z0-9]{1,9}$/

/** Decides by the newest known table which currencies there are. */
export const fxRatesOf = (reader: FxReader): FxRates => ({
  ...reader,
  isCurrency(code) {
    const table = reader.current()
    return code === 'USD' || (table ? table.rates.has(code) : CODE_FORM.test(code))
  },
  currencyOf(code) {
    const rate = code === 'USD' ? USD_RATE : reader.current()?.rates.get(code)
    if (!rate) throw ratesUnavailable()
    return { code, rate }
  },
})

/** Reads what is needed to convert records from `from` on; throws the 503 when there is no rate. */
export async function readRates(clickhouse: ClickhouseReader, currency: string, from: Instant): Promise<RateAt> {
  const rateAt = await readDayRates(clickhouse, currency, from)
  if (!rateAt) throw ratesUnavailable()
  return rateAt
}

/** The 503 for an amount that cannot be converted now. */
export const ratesUnavailable = (): HttpError =>
  new HttpError('SERVICE_UNAVAILABLE', 'Exchange rates are temporarily unavailable; USD needs none.')
