/** Rules: DECISIONS.md, "History and sales". Amounts take the rate of their UTC day. */
import type { z } from 'zod'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { historyQuery, historyReply } from '#schemas/api/history.ts'
import { json, PRO } from '#schemas/api/operation.ts'
import { formatInstant, parseInstant } from '#schemas/values/instant.ts'
import { recordAmount } from '#schemas/values/money.ts'
import { historyKey, readHistory } from '#streams/history/reader.ts'
import { type ApiContext, readRates } from '../context.ts'
import { openCursorPage } from '../cursors.ts'
import { itemFilters, itemNames, namedItems } from '../queries/listing.ts'
import { historyWindow } from '../queries/windows.ts'

export const listHistory = ({ catalog, registry, clickhouse, cursors, fx, now }: ApiContext): Route =>
  defineRoute({
    id: 'listPriceHistory',
    method: 'get',
    path: '/prices/history',
    group: 'Prices',
    tiers: PRO,
    summary: 'Observed asks of an item, newest first',
    description: 'One of `item_id` and `market_hash_name` is required. Reaches back 35 days; the last 14 by default.',
    query: historyQuery({ providers: registry.askKeys, isCurrency: fx.isCurrency }),
    reply: json('HistoryReply', historyReply, 'A page of records.'),
    errors: ['ITEM_NOT_FOUND'],
    async handle({ query }) {
      const filters = { ...itemFilters(query), ...(query.provider && { provider: query.provider }) }
      const { before, paginationOf } = openCursorPage(cursors, ['history', filters], query)
      const { ids } = namedItems(catalog, query)
      const [start, end] = [query.start, query.end].map(text => text && parseInstant(text)) as (number | undefined)[]
      const window = before ?? historyWindow({ start, end }, now())
      const scan = { itemIds: ids, provider: query.provider, ...window, limit: query.limit, after: before?.after }
      const { asks, hasNext } = await readHistory(clickhouse, scan)
      const last = asks.at(-1)
      const oldest = last?.seen_at ?? window.start
      const rateAt = await readRates(clickhouse, query.currency, oldest)
      const position = last && { start: window.start, end: window.end, after: historyKey(last) }
      return {
        meta: {
          currency: query.currency,
          filters: { ...filters, start: formatInstant(window.start), end: formatInstant(window.end) },
          result_count: asks.length,
        },
        items: asks.flatMap((ask): z.infer<typeof historyReply>['items'] => {
          const item = catalog.byId(ask.item_id)
          if (!item) return []
          return [
            {
              ...itemNames(item),
              provider: registry.byKey.get(ask.provider)?.display_name ?? ask.provider,
              time: formatInstant(ask.seen_at),
              price: recordAmount(ask, query.currency, () => rateAt(ask.seen_at)),
              currency: query.currency,
              quantity: ask.quantity,
            },
          ]
        }),
        pagination: paginationOf(hasNext, position),
      }
    },
  })
