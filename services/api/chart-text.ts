/**
 * Writes the series of GET /market/history/chart as a JSON array.
 *
 * Pure. A year of 41 providers has 15,000 points; as objects for JSON.stringify they took three times as long. The texts are
 * those of the zod schema (schemas/api/market.ts), against which test/integration/market-history.test.ts reads them.
 */
import { recordAmount } from './amounts.ts'
import type { ByteText } from './byte-text.ts'
import type { RateAt } from './queries/fx-days.ts'
import type { Chart, ChartSeries } from './queries/history-chart.ts'

const DAY_S = 86_400

/** Adds the series, each point's price at the rate of its own day. */
export function addSeries(to: ByteText, { prices, series }: Chart, currency: string, rateAt: RateAt): void {
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
    to.add(`${isFirst ? '[' : ','}{"provider":${JSON.stringify(provider)},"data":[`)
    addPoints(to, points, amountAt)
    to.add(']}')
    isFirst = false
  }
  to.add(isFirst ? '[]' : ']')
}

function addPoints(
  to: ByteText,
  { day, priceRow, quantity }: ChartSeries,
  amountAt: (row: number, day: number) => number,
): void {
  for (let i = 0; i < day.length; i++) {
    const [shown, units] = [day[i] as number, quantity[i] as number]
    const price = amountAt(priceRow[i] as number, shown)
    to.add(`${i === 0 ? '' : ','}{"t":${shown * DAY_S},"price":${price},"qty":${units < 0 ? 'null' : units}}`)
  }
}
