import type { ProviderTerms } from '../market/messages.ts'
import type { AnalyticsSearch } from './analytics-search.ts'

const MINUTE_MS = 60_000

/** Of a pair, what filters look at. */
interface Pair {
  buy_price_usd: string
  buy_last_updated: string
  sell_last_updated: string
}

/**
 * The providers to ask the API for on one side: the chosen one, where its fee is no higher than the highest one; undefined for all.
 * Only those with bids are sold to.
 */
export function providersOf(
  side: 'buy' | 'sell',
  search: AnalyticsSearch,
  providers: Readonly<Record<string, ProviderTerms>>,
): string[] | undefined {
  const { [side]: chosen, fee } = search
  if (chosen === undefined && fee === undefined) return undefined
  return Object.entries(providers).flatMap(([key, { hasBids, buyFee, sellFee }]) => {
    const isPermitted = chosen === undefined ? side === 'buy' || hasBids : key === chosen
    // Rounded: 0.07 times 100 is more than 7.
    const basisPoints = Math.round((side === 'buy' ? buyFee : sellFee) * 10_000)
    return isPermitted && (fee === undefined || basisPoints <= Number(fee) * 100) ? [key] : []
  })
}

/** Whether a unit is bought by the capital, and neither leg is older than the age at the moment that the figures are of. */
export function meets(pair: Pair, { capital, age }: AnalyticsSearch, asOf: number): boolean {
  const oldest = Math.min(Date.parse(pair.buy_last_updated), Date.parse(pair.sell_last_updated))
  return (
    (capital === undefined || Number(pair.buy_price_usd) <= Number(capital)) &&
    (age === undefined || asOf - oldest <= Number(age) * MINUTE_MS)
  )
}
