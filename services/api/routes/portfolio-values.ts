/** Rules: DECISIONS.md, "Valuation"; computed by services/portfolios (pure). */
import type { z } from 'zod'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { stream } from '#infra/http/reply.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { nextTurn } from '#infra/runtime/turns.ts'
import type { ErrorCode } from '#schemas/api/error.ts'
import { json } from '#schemas/api/operation.ts'
import { valueBody, valueQuery, valueReply } from '#schemas/api/portfolio-values.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { findPortfolio, listHoldings } from '#services/portfolios/reader.ts'
import { type Quote, type ValuedLine, valueHoldings } from '#services/portfolios/values/reader.ts'
import type { LiveReader } from '#streams/live-view/reader.ts'
import type { ApiContext } from '../context.ts'
import { MISSING, namedItem, OPEN, OWN } from '../portfolio-access.ts'
import { chosenProviders } from '../queries/listing.ts'
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
        const holdings = await listHoldings(reads, id)
        return stream(response, valueText(api, holdings, query))
      },
    }),
  ]
}

/** The answer's text, some lines at a time. */
async function* valueText(
  { catalog, registry, fx, live, now }: ApiContext,
  items: readonly { item_id: number; quantity: number }[],
  request: { providers?: readonly string[] | undefined; currency: string },
): AsyncGenerator<string> {
  const { queried, isChosen } = chosenProviders(registry.askKeys, request.providers)
  const currency = fx.currencyOf(request.currency)
  const meta: Reply['meta'] = {
    currency: currency.code,
    generated_at: formatInstant(now()),
    providers_queried: [...queried],
  }
  const holdings = items.map(({ item_id, quantity }) => ({ itemId: item_id, quantity }))
  const inCatalog = holdings.filter(({ itemId }) => catalog.byId(itemId))
  const sums = { total_value: 0n, items_valued: 0 }
  let before = `{"meta":${JSON.stringify(meta)},"data":{"line_items":[`
  for (let at = 0; at < inCatalog.length; at += VALUED_AT_ONCE) {
    const slice = inCatalog.slice(at, at + VALUED_AT_ONCE)
    const quotes = await readQuotes(live, [...new Set(slice.map(({ itemId }) => itemId))], isChosen)
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

/** Reads the quotes of items by the providers that a request asks for; per item in the order of the providers' keys. */
export async function readQuotes(
  live: Pick<LiveReader, 'ofItems'>,
  itemIds: readonly number[],
  isChosen: (provider: string) => boolean,
): Promise<{ asks: Quote[]; bids: Quote[] }> {
  const read = async (side: Side): Promise<Quote[]> => {
    const entries = (await live.ofItems(side, itemIds, true)).flatMap(item => item.entries)
    return entries
      .filter(({ provider }) => isChosen(provider))
      .map(({ itemId, provider, row }) => ({ itemId, provider, ...row }))
  }
  const [asks, bids] = await Promise.all([read('ask'), read('bid')])
  return { asks, bids }
}
