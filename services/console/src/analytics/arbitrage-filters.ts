import type { AnalyticsSearch } from './analytics-search.ts'

const MINUTE_MS = 60_000

/** Of a pair, what filters look at. */
interface Pair {
  buy_price_usd: string
  buy_last_updated: string
  sell_last_updated: string
}

/** Whether a unit is bought by the capital, and neither leg is older than the age at the moment that the figures are of. */
export function meets(pair: Pair, { capital, age }: AnalyticsSearch, asOf: number): boolean {
  const oldest = Math.min(Date.parse(pair.buy_last_updated), Date.parse(pair.sell_last_updated))
  return (
    (capital === undefined || Number(pair.buy_price_usd) <= Number(capital)) &&
    (age === undefined || asOf - oldest <= Number(age) * MINUTE_MS)
  )
}
