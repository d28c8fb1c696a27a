/**
 * Writes the series of GET /market/history/chart as a JSON array.
 *
 * Pure. A year of 41 providers has 15,000 points; as objects for JSON.stringify they took three times as long as texts of each,
 * which are bytes now. The texts are those of the zod schema (schemas/api/market.ts), against which
 * test/integration/market-history.test.ts reads them.
 */
import type { JsonText } from '#infra/runtime/json-text.ts'
import type { RateAt } from '#streams/fx/reader.ts'
import type { Chart, ChartSeries } from '#streams/history/reader.ts'
import { recordAmount } from './amounts.ts'

const DAY_S = 86_400
const piece = (text: string): Buffer => Buffer.from(text)
const [FIRST, NEXT] = [piece('{"t":'), piece(',{"t":')]
const [PRICE, QUANTITY, NONE, END] = [piece(',"price":'), piece(',"qty":'), piece('null'), piece('}')]

/** Adds the series, each point's price at the rate of its own day. */
export function addSeries(to: JsonText, { prices, series }: Chart, currency: string, rateAt: RateAt): void {
  const amountAt = (row: number, day: number): number => {
    const record = {
      price: prices.price[row] as number,
      currency: prices.currency[row] as string,
      price_micro_usd: prices.price_micro_usd[row] as number,
    }
    return recordAmount(record, currency, () => rateAt(day * DAY_S * 1000))
  }
  let isFirst = true
  for (const [provider, points] of series) {
    to.text(`${isFirst ? '[' : ','}{"provider":${JSON.stringify(provider)},"data":[`)
    addPoints(to, points, amountAt)
    to.text(']}')
    isFirst = false
  }
  to.text(isFirst ? '[]' : ']')
}

function addPoints(
  to: JsonText,
  { day, priceRow, quantity }: ChartSeries,
  amountAt: (row: number, day: number) => number,
): void {
  for (let i = 0; i < day.length; i++) {
    const [shown, units] = [day[i] as number, quantity[i] as number]
    const price = amountAt(priceRow[i] as number, shown)
    to.ascii(i === 0 ? FIRST : NEXT)
    to.integer(shown * DAY_S)
    to.ascii(PRICE)
    to.integer(price)
    to.ascii(QUANTITY)
    if (units < 0) to.ascii(NONE)
    else to.integer(units)
    to.ascii(END)
  }
}
