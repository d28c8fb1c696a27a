import type { z } from 'zod'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { HttpError } from '#infra/http/http-error.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { type MoversQuery, moversQuery, moversReply } from '#schemas/api/movers.ts'
import { json, PRO } from '#schemas/api/operation.ts'
import { formatInstant, type Instant } from '#schemas/values/instant.ts'
import { toUsdText } from '#schemas/values/money.ts'
import { percentOf } from '#streams/market-summary/reader.ts'
import { MOVERS_AGE_LIMIT_MS, type Mover } from '#streams/movers/reader.ts'
import { type ApiContext, NO_MOVERS } from '../context.ts'
import { analyticsMeta } from './market.ts'

type ShownMover = z.infer<typeof moversReply>['data'][number]

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
    errors: [],
    async handle({ query }) {
      const movers = await readMovers(query.window)
      const at = now()
      if (!movers || at - movers.asOf > MOVERS_AGE_LIMIT_MS) throw new HttpError('SERVICE_UNAVAILABLE', NO_MOVERS)
      return {
        meta: analyticsMeta('cache', movers.asOf, at, query.window),
        data: chosenMovers(movers.rows, movers.since[query.window], query, catalog),
      }
    },
  })

/** The first rows that fit the filters. */
function chosenMovers(
  rows: readonly Mover[],
  start: Instant,
  query: MoversQuery,
  catalog: CatalogReader,
): ShownMover[] {
  const since = formatInstant(start)
  const type = query.item_type?.toLowerCase()
  const leastMicro = Math.round(query.min_price_usd * MICRO_PER_USD)
  const shown: ShownMover[] = []
  for (const row of rows) {
    if (shown.length === query.limit) break
    if (row.providers < query.min_providers || row.ask < leastMicro) continue
    if (query.direction !== 'both' && query.direction !== (row.ask > row.before ? 'up' : 'down')) continue
    const item = catalog.byId(row.itemId)
    if (!item || (type !== undefined && item.item_type?.toLowerCase() !== type)) continue
    const { item_id, market_hash_name, phase, item_type } = item
    shown.push({ item_id, market_hash_name, phase, item_type, ...amountsOf(row), since })
  }
  return shown
}

const amountsOf = ({ ask, before, providers, units }: Mover) => ({
  best_ask_usd: toUsdText(ask),
  previous_best_ask_usd: toUsdText(before),
  change_usd: toUsdText(ask - before),
  change_pct: percentOf(ask - before, before),
  provider_count: providers,
  volume: units,
})
