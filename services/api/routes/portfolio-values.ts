/**
 * POST /portfolio/value and GET /portfolio/:id/value: what items and portfolios are worth now.
 *
 * Rules: DECISIONS.md, "Valuation"; computed by services/portfolios (pure).
 */
import type { z } from 'zod'
import type { ProviderRegistry } from '#infra/config/providers.ts'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import type { ErrorCode } from '#schemas/api/error.ts'
import { json } from '#schemas/api/operation.ts'
import { valueBody, valueQuery, valueReply } from '#schemas/api/portfolio-values.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import type { PortfolioStore } from '#services/portfolios/commands.ts'
import { listHoldings } from '#services/portfolios/entries/reader.ts'
import { findPortfolio } from '#services/portfolios/reader.ts'
import { type Holding, type ValuedLine, valueHoldings } from '#services/portfolios/values/reader.ts'
import { kept, MISSING, namedItem, OPEN, OWN } from '../portfolio-access.ts'
import type { FxRates } from '../queries/fx-rates.ts'
import type { LiveView } from '../queries/live-view.ts'
import { readQuotes } from '../queries/quotes.ts'

/** What current values need. */
export interface PortfolioValueNeeds {
  store: PortfolioStore
  catalog: CatalogReader
  registry: ProviderRegistry
  fx: FxRates
  live: LiveView
  /** Milliseconds since the epoch. */
  now: () => number
}

type Reply = z.infer<typeof valueReply>

/** What is said of amounts wherever values are answered. */
export const AMOUNTS = 'Amounts are integers in hundredths of the currency.'

const NO_PRICES: ErrorCode[] = ['PRICES_INDEX_UNAVAILABLE', 'BIDS_INDEX_UNAVAILABLE']

/** The refusals of a portfolio that is valued. */
export const PRICED: ErrorCode[] = [...MISSING, ...NO_PRICES]

/** The routes of current values. */
export function portfolioValueRoutes(needs: PortfolioValueNeeds): Route[] {
  const { store, registry, fx } = needs
  const scope = { providers: registry.askKeys, isCurrency: (code: string) => fx.isCurrency(code) }
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
      handle({ body: { items, providers, currency } }) {
        const holdings = items.map(({ item_id, quantity }) => ({ itemId: item_id, quantity }))
        return valueReplyOf(needs, holdings, { providers, currency })
      },
    }),
    defineRoute({
      ...OWN,
      id: 'valuePortfolio',
      method: 'get',
      path: '/portfolio/:id/value',
      summary: 'Value a portfolio by the current best asks',
      description: `One line per item, units of all its entries together. ${AMOUNTS}`,
      query: valueQuery(scope),
      reply: json('ValueReply', valueReply, 'Lines by ascending item id.'),
      errors: PRICED,
      async handle({ params: { id }, query, credential }) {
        await kept(findPortfolio(store, credential.accountId, id))
        const held = await kept(listHoldings(store, id))
        const holdings = held.map(({ item_id, quantity }) => ({ itemId: item_id, quantity }))
        return valueReplyOf(needs, holdings, query)
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

async function valueReplyOf(
  { catalog, registry, fx, live, now }: PortfolioValueNeeds,
  holdings: readonly Holding[],
  wanted: { providers?: readonly string[] | undefined; currency: string },
): Promise<Reply> {
  const { queried, chosen } = chosenProviders(registry, wanted.providers)
  const currency = fx.currencyOf(wanted.currency)
  const known = holdings.filter(({ itemId }) => catalog.byId(itemId))
  const unknown = holdings.filter(({ itemId }) => !catalog.byId(itemId))
  const quotes = await readQuotes(live, [...new Set(known.map(({ itemId }) => itemId))], chosen)
  const { lines, total, itemsValued } = valueHoldings(known, quotes, currency)
  return {
    meta: { currency: currency.code, generated_at: formatInstant(now()), providers_queried: [...queried] },
    data: {
      line_items: lines.map(line => lineReply(catalog, line)),
      total_value: Number(total),
      items_valued: itemsValued,
      items_not_found: [...new Set(unknown.map(({ itemId }) => itemId))],
    },
  }
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
