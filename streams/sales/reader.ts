/**
 * Reads sales (by item) and sales_by_time (the feed of all); what a sale of the log becomes in them, and how either is shown.
 *
 * Invariant: the order of {@link readSales} is total (time, item, provider, the provider's sale id), so a cursor continues
 * exactly where a page ended; of several sightings of a sale the first in the log is shown.
 */
import type { z } from 'zod'
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { saleRecord } from '#schemas/api/sales.ts'
import { NO_PATTERN, type SaleCharm } from '#schemas/events/sale-observed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { DAY_MS, formatInstant, type Instant } from '#schemas/values/instant.ts'
import { type Rate, recordAmount } from '#schemas/values/money.ts'
import type { SaleRow } from './table.ts'

export { isRow, rowOfSale } from './fold.ts'
export type { SaleRow } from './table.ts'

type SortKey = readonly (string | number)[]

/** Undefined = no such filter. */
export interface SalesScan {
  itemIds: readonly number[] | undefined
  providers: readonly string[]
  minFloat: number | undefined
  maxFloat: number | undefined
  paintSeed: number | undefined
  stickers: readonly string[] | undefined
  charm: string | undefined
  limit: number
  after: SortKey | undefined
}

/** Reads up to `limit` sales, newest first, and whether more follow. */
export async function readSales(
  clickhouse: ClickhouseReader,
  scan: SalesScan,
): Promise<{ sales: SaleRow[]; hasNext: boolean }> {
  const table = scan.itemIds === undefined ? 'sales_by_time' : 'sales'
  const { conditions, params } = conditionsOf(scan)
  // Not FINAL: that would merge the whole table before the first row; the order of the table ends at the limit.
  const sales = await clickhouse.rows<SaleRow>(
    `SELECT item_id, toUnixTimestamp64Milli(sold) AS sold_at, provider, sale_id, price, currency, price_micro_usd,
      usd_rate, float, paint_seed, has_stickers, stickers, has_charms, charms, inspect_in_game, screenshot_front,
      screenshot_back, toUnixTimestamp64Milli(observed) AS observed_at
    FROM (SELECT *, sold_at AS sold, observed_at AS observed FROM ${clickhouse.database}.${table}
      WHERE ${conditions.join(' AND ')}
      ORDER BY sold_at DESC, item_id DESC, provider DESC, sale_id DESC, version DESC
      LIMIT 1 BY sold_at, item_id, provider, sale_id
      LIMIT {count:UInt32})
    ORDER BY sold DESC, item_id DESC, provider DESC, sale_id DESC`,
    { ...params, count: scan.limit + 1 },
  )
  return { sales: sales.slice(0, scan.limit), hasNext: sales.length > scan.limit }
}

export const saleKey = (sale: SaleRow): SortKey => [sale.sold_at, sale.item_id, sale.provider, sale.sale_id]

function conditionsOf(scan: SalesScan): { conditions: string[]; params: Record<string, unknown> } {
  const [at, item, key, sale] = scan.after ?? []
  const filters: [string, Record<string, unknown>][] = [
    ['provider IN {providers:Array(String)}', { providers: scan.providers }],
    ['item_id IN {items:Array(UInt32)}', { items: scan.itemIds }],
    ['float >= {minFloat:Float64}', { minFloat: scan.minFloat }],
    ['float <= {maxFloat:Float64}', { maxFloat: scan.maxFloat }],
    ['paint_seed = {paintSeed:Int32}', { paintSeed: scan.paintSeed }],
    ['hasAll(stickers.name, {stickers:Array(String)})', { stickers: scan.stickers }],
    ['has(charms.name, {charm:String})', { charm: scan.charm }],
    [AFTER, { at, item, key, sale }],
  ]
  const applied = filters.filter(([, params]) => Object.values(params).every(value => value !== undefined))
  return {
    conditions: applied.map(([condition]) => condition),
    params: Object.assign({}, ...applied.map(([, params]) => params)),
  }
}

/** With the first comparison alone the server skips what the tuple would make it read. */
const AFTER = `sold_at <= fromUnixTimestamp64Milli({at:Int64}, 'UTC')
  AND (sold_at, item_id, provider, sale_id) <
    (fromUnixTimestamp64Milli({at:Int64}, 'UTC'), {item:UInt32}, {key:String}, {sale:String})`

/** Sales of a provider by item in the day up to a moment; undefined when it has reported none for two days. */
export async function countRecentSales(
  clickhouse: ClickhouseReader,
  provider: string,
  end: Instant,
): Promise<Map<number, number> | undefined> {
  const rows = await clickhouse.rows<{ item_id: number; recent: number }>(
    `SELECT item_id, uniqExactIf((sale_id, sold_at), sold_at > fromUnixTimestamp64Milli({day:Int64}, 'UTC')) AS recent
    FROM ${clickhouse.database}.sales_by_time
    WHERE provider = {provider:String} AND sold_at > fromUnixTimestamp64Milli({two_days:Int64}, 'UTC')
      AND sold_at <= fromUnixTimestamp64Milli({end:Int64}, 'UTC') GROUP BY item_id`,
    { provider, day: end - DAY_MS, two_days: end - 2 * DAY_MS, end },
  )
  return rows.length === 0 ? undefined : new Map(rows.map(({ item_id, recent }) => [item_id, recent]))
}

/** A sale of an item as replies and events show it; `rate` gives that of the currency on the day of the sale. */
export function recordOfSale(
  sale: SaleRow,
  { market_hash_name, phase }: CatalogItem,
  currency: string,
  rate: () => Rate,
): z.infer<typeof saleRecord> {
  const { inspect_in_game: in_game, screenshot_front, screenshot_back } = sale
  const inspect = { in_game, screenshot_front, screenshot_back }
  return {
    date: formatInstant(sale.sold_at),
    provider: sale.provider,
    price: recordAmount(sale, currency, rate),
    currency,
    item_id: sale.item_id,
    market_hash_name,
    phase,
    float: sale.float,
    paint_seed: sale.paint_seed,
    stickers: sale.has_stickers ? sale.stickers : null,
    charms: sale.has_charms ? sale.charms.map(shownCharm) : null,
    inspect: Object.values(inspect).some(link => link !== null) ? inspect : null,
  }
}

const shownCharm = ({ name, pattern_id }: SaleCharm) => ({
  name,
  pattern_id: pattern_id === NO_PATTERN ? null : pattern_id,
})
