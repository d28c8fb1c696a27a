/**
 * GET /prices/history: the asks that were observed, newest first.
 *
 * Rules: DECISIONS.md, "History and sales". Amounts are converted at the rate of the record's UTC day; a
 * record in its own currency keeps its price.
 */
import type { Router } from 'express'
import type { z } from 'zod'
import { historyQuery, type historyReply } from '#schemas/api/history.ts'
import { formatInstant, parseInstant } from '#schemas/values/instant.ts'
import { historyKey, readHistory } from '#streams/history/reader.ts'
import { recordAmount } from '../amounts.ts'
import { orUnavailable } from '../errors.ts'
import type { Allow } from '../guard.ts'
import type { ApiParts } from '../parts.ts'
import { readRates } from '../queries/fx-rates.ts'
import { itemFilters, namedItems } from '../queries/listing.ts'
import { historyWindow } from '../queries/windows.ts'
import { send } from '../reply.ts'
import { parse } from '../request.ts'

type Reply = z.infer<typeof historyReply>

const DOWN = 'Price history is temporarily unavailable.'

/** Adds the route. */
export function addHistoryRoute(router: Router, allow: Allow, parts: ApiParts): void {
  const { catalog, registry, clickhouse, cursors, fx } = parts
  const schema = historyQuery({ providers: registry.askKeys, isCurrency: code => fx.isCurrency(code) })

  router.get('/prices/history', allow('pro', 'quant'), async (request, response) => {
    const query = parse(schema, request)
    const filters = { ...itemFilters(query), ...(query.provider && { provider: query.provider }) }
    const scope = ['history', filters]
    const before = query.cursor === undefined ? undefined : cursors.read(scope, query.cursor)
    const { ids } = namedItems(catalog, query)
    const [start, end] = [query.start, query.end].map(text => text && parseInstant(text)) as (number | undefined)[]
    const window = before ?? historyWindow({ start, end }, parts.now())
    const scan = { itemIds: ids, provider: query.provider, ...window, limit: query.limit, after: before?.after }
    const { asks, hasNext } = await orUnavailable(readHistory(clickhouse, scan), 'SERVICE_UNAVAILABLE', DOWN)
    const last = asks.at(-1)
    const oldest = last?.seen_at ?? window.start
    const rateAt = await orUnavailable(readRates(clickhouse, query.currency, oldest), 'SERVICE_UNAVAILABLE', DOWN)
    const position = last && { start: window.start, end: window.end, after: historyKey(last) }
    const reply: Reply = {
      meta: {
        currency: query.currency,
        filters: { ...filters, start: formatInstant(window.start), end: formatInstant(window.end) },
        result_count: asks.length,
      },
      items: asks.flatMap((ask): Reply['items'] => {
        const item = catalog.byId(ask.item_id)
        if (!item) return []
        return [
          {
            item_id: ask.item_id,
            market_hash_name: item.market_hash_name,
            phase: item.phase,
            provider: registry.byKey.get(ask.provider)?.display_name ?? ask.provider,
            time: formatInstant(ask.seen_at),
            price: recordAmount(ask, query.currency, () => rateAt(ask.seen_at)),
            currency: query.currency,
            quantity: ask.quantity,
          },
        ]
      }),
      pagination: {
        limit: query.limit,
        offset: 0,
        total: -1,
        has_next: hasNext,
        has_prev: before !== undefined,
        next_cursor: hasNext && position ? cursors.write(scope, position) : null,
      },
    }
    send(response, 200, JSON.stringify(reply))
  })
}
