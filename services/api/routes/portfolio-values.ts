/**
 * The routes of what items and portfolios are worth: now, by day, and what the ledger has earned.
 *
 * Rules: DECISIONS.md, "Valuation"; computed by services/portfolios (pure).
 */
import type { Router } from 'express'
import type { z } from 'zod'
import { valueBody, valueQuery, type valueReply } from '#schemas/api/portfolio-values.ts'
import { portfolioParams } from '#schemas/api/portfolios.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { listHoldings } from '#services/portfolios/entries/reader.ts'
import { findPortfolio } from '#services/portfolios/reader.ts'
import { type Holding, type ValuedLine, valueHoldings } from '#services/portfolios/values/reader.ts'
import { parseBody, readBody } from '../body.ts'
import { credentialOf, type Guard } from '../guard.ts'
import type { ApiParts } from '../parts.ts'
import { EVERYBODY, kept, storeOf } from '../portfolio-access.ts'
import { readQuotes } from '../queries/quotes.ts'
import { send } from '../reply.ts'
import { parse, parseParams } from '../request.ts'

type Reply = z.infer<typeof valueReply>

/** Adds the routes of current values. */
export function addPortfolioValueRoutes(router: Router, guard: Guard, parts: ApiParts): void {
  const { registry, fx } = parts
  const open = guard.account(...EVERYBODY)
  const store = storeOf(parts)
  const scope = { providers: registry.askKeys, isCurrency: (code: string) => fx.isCurrency(code) }
  const body = valueBody(scope)
  const query = valueQuery(scope)

  router.post('/portfolio/value', open, readBody, async (request, response) => {
    const { items, providers, currency } = parseBody(body, request)
    const holdings = items.map(({ item_id, quantity }) => ({ itemId: item_id, quantity }))
    send(response, 200, JSON.stringify(await valueReplyOf(parts, holdings, { providers, currency })))
  })
  router.get('/portfolio/:id/value', open, async (request, response) => {
    const { id } = parseParams(portfolioParams, request)
    const wanted = parse(query, request)
    await kept(findPortfolio(store, credentialOf(response).accountId, id))
    const held = await kept(listHoldings(store, id))
    const holdings = held.map(({ item_id, quantity }) => ({ itemId: item_id, quantity }))
    send(response, 200, JSON.stringify(await valueReplyOf(parts, holdings, wanted)))
  })
}

/** The providers that a request asks for, in the order of their keys; all where it names none. */
export function chosenProviders(
  { registry }: ApiParts,
  providers: readonly string[] | undefined,
): { queried: readonly string[]; chosen: ReadonlySet<string> | undefined } {
  if (!providers || providers.length === 0) return { queried: registry.askKeys, chosen: undefined }
  const chosen = new Set(providers)
  return { queried: registry.askKeys.filter(key => chosen.has(key)), chosen }
}

async function valueReplyOf(
  parts: ApiParts,
  holdings: readonly Holding[],
  wanted: { providers?: readonly string[] | undefined; currency: string },
): Promise<Reply> {
  const { catalog, fx, live, now } = parts
  const { queried, chosen } = chosenProviders(parts, wanted.providers)
  const currency = fx.currencyOf(wanted.currency)
  const known = holdings.filter(({ itemId }) => catalog.byId(itemId))
  const unknown = holdings.filter(({ itemId }) => !catalog.byId(itemId))
  const quotes = await readQuotes(live, [...new Set(known.map(({ itemId }) => itemId))], chosen)
  const { lines, total, itemsValued } = valueHoldings(known, quotes, currency)
  return {
    meta: { currency: currency.code, generated_at: formatInstant(now()), providers_queried: [...queried] },
    data: {
      line_items: lines.map(line => lineReply(parts, line)),
      total_value: Number(total),
      items_valued: itemsValued,
      items_not_found: [...new Set(unknown.map(({ itemId }) => itemId))],
    },
  }
}

const numberOrNull = (value: bigint | null): number | null => (value === null ? null : Number(value))

function lineReply({ catalog }: ApiParts, line: ValuedLine): Reply['data']['line_items'][number] {
  const item = catalog.byId(line.itemId)
  return {
    ...{ item_id: line.itemId, market_hash_name: item?.market_hash_name ?? '', phase: item?.phase ?? null },
    quantity: line.quantity,
    best_ask: numberOrNull(line.bestAsk),
    best_bid: numberOrNull(line.bestBid),
    item_value: numberOrNull(line.value),
    image_url: item?.image_url ?? null,
    rarity_name: item?.rarity_name ?? null,
    rarity_color: item?.rarity_color ?? null,
    providers: line.asks.map(({ provider, amount, quantity }) => ({ provider, lowest_ask: Number(amount), quantity })),
  }
}
