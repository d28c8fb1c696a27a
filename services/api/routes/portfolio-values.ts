/**
 * POST /portfolio/value and GET /portfolio/:id/value: what items and portfolios are worth now.
 *
 * Rules: DECISIONS.md, "Valuation"; computed by services/portfolios (pure).
 */
import type { z } from 'zod'
import type { ProviderRegistry } from '#infra/config/providers.ts'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { stream } from '#infra/http/reply.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { nextTurn } from '#infra/runtime/turns.ts'
import type { ErrorCode } from '#schemas/api/error.ts'
import { json } from '#schemas/api/operation.ts'
import { valueBody, valueQuery, valueReply } from '#schemas/api/portfolio-values.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { findPortfolio, listHoldings } from '#services/portfolios/reader.ts'
import { type Quote, type ValuedLine, valueHoldings } from '#services/portfolios/values/reader.ts'
import type { ApiContext, LiveView } from '../context.ts'
import { MISSING, namedItem, OPEN, OWN } from '../portfolio-access.ts'
import { EXPENSIVE_IF_LARGE } from '../work-limits.ts'

type Reply = z.infer<typeof valueReply>

/** Items that are valued and written at a time, each with up to 41 quotes of either side. */
const VALUED_AT_ONCE = 100

export const AMOUNTS = 'Amounts are integers in hundredths of the currency.'

const NO_PRICES: ErrorCode[] = ['PRICES_INDEX_UNAVAILABLE', 'BIDS_INDEX_UNAVAILABLE']

export const PRICED: ErrorCode[] = [...MISSING, ...NO_PRICES]

export function portfolioValueRoutes(api: ApiContext): Route[] {
  const { store, registry, fx, budget, reads } = api
  const scope = { providers: registry.askKeys, isCurrency: fx.isCurrency }
  return [
    defineRoute({
      ...OPEN,
      id: 'valueItems',
      method: 'post',
      path: '/portfolio/value',
      summary: 'Value a list of items by the current best asks',
      description: `Stores nothing. Up to 100 items. ${AMOUNTS} An item without an ask has null prices.`,
      body: valueBody(scope),
      reply: json('ValueReply', valueReply, 'One line per item of the request that the catalog has.'),
      errors: NO_PRICES,
      handle: ({ body: { items, providers, currency }, response }) =>
        stream(response, valueText(api, items, { providers, currency })),
    }),
    defineRoute({
      ...OWN,
      id: 'valuePortfolio',
      method: 'get',
      path: '/portfolio/:id/value',
      summary: 'Value a portfolio by the current best asks',
      description: `One line per item, units of all its entries together. ${AMOUNTS} ${EXPENSIVE_IF_LARGE}`,
      query: valueQuery(scope),
      reply: json('ValueReply', valueReply, 'Lines by ascending item id.'),
      errors: PRICED,
      async handle({ params: { id }, query, credential, response }) {
        const { item_count } = await findPortfolio(store, credential.accountId, id)
        await budget.charge(credential, item_count)
        const held = await listHoldings(reads, id)
        return stream(response, valueText(api, held, query))
      },
    }),
  ]
}

/** The providers that a request asks for, in the order of their keys; all where it names none. */
export function chosenProviders(
  registry: ProviderRegistry,
  providers: readonly string[] | undefined,
): { queried: readonly string[]; chosen: ReadonlySet<string> | undefined } {
  if (!providers || providers.length === 0) return { queried: registry.askKeys, chosen: undefined }
  const chosen = new Set(providers)
  return { queried: registry.askKeys.filter(key => chosen.has(key)), chosen }
}

/** The answer's text, some lines at a time. */
async function* valueText(
  { catalog, registry, fx, live, now }: ApiContext,
  held: readonly { item_id: number; quantity: number }[],
  wanted: { providers?: readonly string[] | undefined; currency: string },
): AsyncGenerator<string> {
  const { queried, chosen } = chosenProviders(registry, wanted.providers)
  const currency = fx.currencyOf(wanted.currency)
  const meta: Reply['meta'] = {
    currency: currency.code,
    generated_at: formatInstant(now()),
    providers_queried: [...queried],
  }
  const holdings = held.map(({ item_id, quantity }) => ({ itemId: item_id, quantity }))
  const known = holdings.filter(({ itemId }) => catalog.byId(itemId))
  const sums = { total_value: 0n, items_valued: 0 }
  let before = `{"meta":${JSON.stringify(meta)},"data":{"line_items":[`
  for (let at = 0; at < known.length; at += VALUED_AT_ONCE) {
    const slice = known.slice(at, at + VALUED_AT_ONCE)
    const quotes = await readQuotes(live, [...new Set(slice.map(({ itemId }) => itemId))], chosen)
    const { lines, total, itemsValued } = valueHoldings(slice, quotes, currency)
    sums.total_value += total
    sums.items_valued += itemsValued
    yield before + JSON.stringify(lines.map(line => lineReply(catalog, line))).slice(1, -1)
    before = ','
    await nextTurn()
  }
  const items_not_found = [...new Set(holdings.flatMap(({ itemId }) => (catalog.byId(itemId) ? [] : itemId)))]
  const rest = JSON.stringify({ ...sums, total_value: Number(sums.total_value), items_not_found })
  yield `${before === ',' ? '' : before}],${rest.slice(1)}}`
}

const numberOrNull = (value: bigint | null): number | null => (value === null ? null : Number(value))

function lineReply(catalog: CatalogReader, line: ValuedLine): Reply['data']['line_items'][number] {
  const item = catalog.byId(line.itemId)
  return {
    ...namedItem(catalog, line.itemId),
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

interface Quotes {
  asks: Quote[]
  bids: Quote[]
}

/** Items whose rows are read at once; a whole portfolio has up to 10,000 with up to 41 rows each. */
const QUOTED_AT_ONCE = 500

/** Reads the quotes of items by some providers (all by default); per item in the order of the providers' keys. */
export async function readQuotes(
  live: LiveView,
  itemIds: readonly number[],
  providers: ReadonlySet<string> | undefined,
): Promise<Quotes> {
  const quotes: Quotes = { asks: [], bids: [] }
  for (let at = 0; at < itemIds.length; at += QUOTED_AT_ONCE) {
    const slice = itemIds.slice(at, at + QUOTED_AT_ONCE)
    const [asks, bids] = await Promise.all([live.ofItems('ask', slice), live.ofItems('bid', slice)])
    for (const [entries, into] of [
      [asks, quotes.asks],
      [bids, quotes.bids],
    ] as const) {
      for (const { itemId, listed } of entries) {
        if (providers && !providers.has(listed.provider)) continue
        const { price, currency, priceMicroUsd, quantity } = listed.row
        into.push({ itemId, provider: listed.provider, price, currency, priceMicroUsd, quantity })
      }
    }
  }
  return quotes
}
