/** Rules: DECISIONS.md, "History and sales". Amounts take the rate of their UTC day. */
import type { z } from 'zod'
import { defineRoute, perTier, type Route } from '#infra/http/define-route.ts'
import { json, PRO } from '#schemas/api/operation.ts'
import { type SalesQuery, salesQuery, salesReply } from '#schemas/api/sales.ts'
import { readSales, recordOfSale, type SalesScan, saleKey } from '#streams/sales/reader.ts'
import { type ApiContext, readRates } from '../context.ts'
import { openCursorPage } from '../cursors.ts'
import { chosenItems, itemFilters } from '../queries/listing.ts'

export const listSales = ({ catalog, registry, clickhouse, cursors, fx, tiers, now }: ApiContext): Route =>
  defineRoute({
    id: 'listSales',
    method: 'get',
    path: '/sales',
    group: 'Sales',
    tiers: PRO,
    summary: 'Completed sales, newest first',
    description: 'Without an item the sales of all items.',
    query: perTier(tiers, limits =>
      salesQuery({
        providers: registry.saleKeys,
        isCurrency: fx.isCurrency,
        pageMax: limits.sales_page_default ?? 1,
      }),
    ),
    reply: json('SalesReply', salesReply, 'A page of sales.'),
    errors: ['ITEM_NOT_FOUND'],
    async handle({ query }) {
      const filters = filtersOf(query)
      const { before, paginationOf } = openCursorPage(cursors, ['sales', { ...filters, limit: 0 }], query)
      const providers = filters.requested_providers ?? registry.saleKeys
      const scan: SalesScan = {
        itemIds: chosenItems(catalog, query),
        providers,
        minFloat: query.min_float,
        maxFloat: query.max_float,
        paintSeed: query.paint_seed,
        stickers: query.stickers,
        charm: query.charms,
        limit: query.limit,
        after: before?.after,
      }
      const { sales, hasNext } = await readSales(clickhouse, scan)
      const last = sales.at(-1)
      const rateAt = await readRates(clickhouse, query.currency, last?.sold_at ?? now())
      return {
        meta: { currency: query.currency, filters, providers_queried: providers, result_count: sales.length },
        items: sales.flatMap(sale => {
          const item = catalog.byId(sale.item_id)
          return item ? [recordOfSale(sale, item, query.currency, () => rateAt(sale.sold_at))] : []
        }),
        pagination: paginationOf(hasNext, last && { start: 0, end: 0, after: saleKey(last) }),
      }
    },
  })

/** All filters; null for those that do not take effect. */
function filtersOf(query: SalesQuery): z.infer<typeof salesReply>['meta']['filters'] {
  const { item_id, market_hash_name, phase } = itemFilters(query)
  return {
    item_id: item_id ?? null,
    market_hash_name: market_hash_name ?? null,
    phase: phase ?? null,
    requested_providers: query.providers ? [...new Set(query.providers)].sort() : null,
    min_float: query.min_float ?? null,
    max_float: query.max_float ?? null,
    paint_seed: query.paint_seed ?? null,
    stickers: query.stickers ?? null,
    charms: query.charms ?? null,
    limit: query.limit,
  }
}
