/**
 * The closes that the table provider_days holds, read by a statement of the tests' own.
 *
 * Shares no SQL with the platform: of several rows of a day the highest version counts, of price and close each, and a
 * version of -1 says that the day set no price.
 */
import type { Side } from '#schemas/events/book-changed.ts'

/** How a provider's ask or bid for an item closed a day. */
export interface DayRow {
  item_id: number
  side: Side
  provider: string
  /** YYYY-MM-DD. */
  day: string
  /** Null on a day that set no price. */
  price: number | null
  price_micro_usd: number | null
  currency: string | null
  quantity: number
  listed: boolean
}

/** The statement that reads a row per item, side, provider and day; members are in the order of {@link DayRow}. */
export function selectDayRows(database: string, condition = 'true'): string {
  const priced = (member: string) => `argMax(priced.${member}, priced.version)`
  const orNull = (member: string) => `if(max(priced.version) = -1, NULL, ${priced(member)})`
  return `SELECT item_id, side, provider, day,
  ${orNull('price')} AS price, ${orNull('price_micro_usd')} AS price_micro_usd, ${orNull('currency')} AS currency,
  argMax(closing.quantity, closing.version) AS quantity, argMax(closing.listed, closing.version) AS listed
  FROM ${database}.provider_days WHERE ${condition} GROUP BY item_id, side, provider, day`
}
