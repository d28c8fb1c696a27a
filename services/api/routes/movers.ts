import type { z } from 'zod'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { type MoversQuery, moversQuery, moversReply } from '#schemas/api/movers.ts'
import { json, PRO } from '#schemas/api/operation.ts'
import { formatInstant, type Instant } from '#schemas/values/instant.ts'
import { toUsdText } from '#schemas/values/money.ts'
import { percentOf } from '#streams/market-summary/reader.ts'
import type { Mover } from '#streams/movers/reader.ts'
import type { ApiContext } from '../context.ts'
import { itemNames } from '../queries/listing.ts'
import { analyticsMeta } from './market.ts'

const MICRO_PER_USD = 1_000_000

export const listMovers = ({ readMovers, catalog, now }: ApiContext): Route =>
  defineRoute({
    id: 'listMovers',
    method: 'get',
    path: '/market/movers',
    group: 'Market analytics',
    tiers: PRO,
    summary: 'Items whose best ask moved most',
    description:
      'The best ask of the providers that are up, against the one at the start of the window, largest change in percent first. From a snapshot that is at most 30 s old. An item that was not listed at the start is left out, and so is one whose best ask is the same.',
    query: moversQuery,
    reply: json('MoversReply', moversReply, 'Items, largest change first.'),
    async handle({ query }) {
      const movers = await readMovers(query.window)
      return {
        meta: analyticsMeta('cache', movers.asOf, now(), query.window),
        data: chosenMovers(movers.rows, movers.since[query.window], query, catalog),
      }
    },
  })

function chosenMovers(
  rows: readonly Mover[],
  start: Instant,
  query: MoversQuery,
  catalog: CatalogReader,
): z.infer<typeof moversReply>['data'] {
  const since = formatInstant(start)
  const type = query.item_type?.toLowerCase()
  const leastMicro = Math.round(query.min_price_usd * MICRO_PER_USD)
  const isChosen = ({ ask, before, providers }: Mover): boolean =>
    providers >= query.min_providers &&
    ask >= leastMicro &&
    (query.direction === 'both' || query.direction === (ask > before ? 'up' : 'down'))
  return rows
    .values()
    .filter(isChosen)
    .flatMap(({ itemId, ask, before, providers, units }) => {
      const item = catalog.byId(itemId)
      if (!item || (type !== undefined && item.item_type?.toLowerCase() !== type)) return []
      const { item_type } = item
      const figures = {
        best_ask_usd: toUsdText(ask),
        previous_best_ask_usd: toUsdText(before),
        change_usd: toUsdText(ask - before),
        change_pct: percentOf(ask - before, before),
        provider_count: providers,
        volume: units,
      }
      return [{ ...itemNames(item), item_type, ...figures, since }]
    })
    .take(query.limit)
    .toArray()
}
