/**
 * Writes the series of GET /market/history/chart as a JSON array.
 *
 * Pure. A year of 41 providers has 15,000 points; as objects for JSON.stringify they took three times as long. The texts are
 * those of the zod schema (schemas/api/market.ts), against which test/integration/market-history.test.ts reads them.
 */
import { recordAmount } from './amounts.ts'
import type { RateAt } from './queries/fx-days.ts'
import type { Chart, ChartSeries } from './queries/history-chart.ts'

const DAY_S = 86_400

/** The series as text, each point's price at the rate of its own day. */
export function chartText({ prices, series }: Chart, currency: string, rateAt: RateAt): string {
  const amountAt = (row: number, day: number): number => {
    const record = {
      price: prices.price[row] as number,
      currency: prices.currency[row] as string,
      price_micro_usd: prices.price_micro_usd[row] as number,
    }
    return recordAmount(record, currency, () => rateAt(day * DAY_S * 1000))
  }
  const texts = [...series].map(
    ([provider, points]) => `{"provider":${JSON.stringify(provider)},"data":[${pointsText(points, amountAt)}]}`,
  )
  return `[${texts.join()}]`
}

function pointsText({ day, priceRow, quantity }: ChartSeries, amountAt: (row: number, day: number) => number): string {
  let text = ''
  for (let i = 0; i < day.length; i++) {
    const [shown, units] = [day[i] as number, quantity[i] as number]
    const price = amountAt(priceRow[i] as number, shown)
    text += `${i === 0 ? '' : ','}{"t":${shown * DAY_S},"price":${price},"qty":${units < 0 ? 'null' : units}}`
  }
  return text
}
