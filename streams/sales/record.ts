import type { z } from 'zod'
import type { saleRecord } from '#schemas/api/sales.ts'
import { NO_PATTERN, type SaleCharm } from '#schemas/events/sale-observed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { type Rate, recordAmount } from '#schemas/values/money.ts'
import type { SaleRow } from './table.ts'

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
