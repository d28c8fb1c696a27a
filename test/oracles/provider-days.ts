/** Of several rows of a day the highest version counts, of price and close each; a version of -1 says that the day set no price. */

/** The statement that reads how each provider's ask or bid for an item closed each day; prices are null on a day that set none. */
export function selectDayRows(database: string, condition = 'true'): string {
  const priced = (member: string) => `argMax(priced.${member}, priced.version)`
  const orNull = (member: string) => `if(max(priced.version) = -1, NULL, ${priced(member)})`
  return `SELECT item_id, side, provider, day,
  ${orNull('price')} AS price, ${orNull('price_micro_usd')} AS price_micro_usd, ${orNull('currency')} AS currency,
  argMax(closing.quantity, closing.version) AS quantity, argMax(closing.listed, closing.version) AS listed
  FROM ${database}.provider_days WHERE ${condition} GROUP BY item_id, side, provider, day`
}
