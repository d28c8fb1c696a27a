import type { z } from 'zod'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { HttpError, orUnavailable } from '#infra/http/http-error.ts'
import type { ViewStore } from '#infra/redis/redis.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { type MoversQuery, moversQuery, moversReply } from '#schemas/api/movers.ts'
import { json, PRO } from '#schemas/api/operation.ts'
import { formatInstant, type Instant } from '#schemas/values/instant.ts'
import { toUsdText } from '#schemas/values/money.ts'
import { percentOf } from '#streams/market-summary/reader.ts'
import { MOVERS_AGE_LIMIT_MS, type Mover, openMoversReader } from '#streams/movers/reader.ts'
import { analyticsMeta } from './market.ts'

/** What the movers need. */
interface MoverNeeds {
  viewStore: ViewStore
  catalog: CatalogReader
  /** Milliseconds since the epoch. */
  now: () => number
}

type ShownMover = z.infer<typeof moversReply>['data'][number]

const DOWN = 'No current movers are available; retry in a few seconds.'
const MICRO_PER_USD = 1_000_000

/** The route. */
export function listMovers({ viewStore, catalog, now }: MoverNeeds): Route {
  const movers = openMoversReader(viewStore)
  return defineRoute({
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
      const newest = async () => {
        const found = await movers.read()
        return found && { ...found, rows: await found.rows(query.window) }
      }
      const found = await orUnavailable(newest(), 'SERVICE_UNAVAILABLE', DOWN)
      const at = now()
      if (!found || at - found.asOf > MOVERS_AGE_LIMIT_MS) throw new HttpError('SERVICE_UNAVAILABLE', DOWN)
      return {
        meta: analyticsMeta('cache', found.asOf, at, query.window),
        data: chosenMovers(found.rows, found.since[query.window], query, catalog),
      }
    },
  })
}

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
