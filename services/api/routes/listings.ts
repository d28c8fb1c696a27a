/**
 * GET /prices and GET /bids: the lowest ask and the highest buy order of each provider; GET /r/{provider}/{item_id}: from there to the
 * marketplace.
 *
 * Rules: DECISIONS.md, "Prices and bids". The answer is written as text (queries/listing.ts); its schema is schemas/api/listing.ts. The
 * redirect takes the live row's own URL, else fills the provider's template. It leads to http or https alone, and to no host but the
 * provider's own; unknown providers and items are 404.
 */
import { defineRoute, perTier, type Route } from '#infra/http/define-route.ts'
import { HttpError } from '#infra/http/http-error.ts'
import { bytes } from '#infra/http/reply.ts'
import { ascii } from '#schemas/api/entry-text.ts'
import { bidsReply, listingQuery, pricesReply, redirectParams } from '#schemas/api/listing.ts'
import { ALL, json, type Operation, type Reply, STARTER } from '#schemas/api/operation.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { type ApiContext, INDEX_CODES } from '../context.ts'
import { answerOf, itemNotFound, openListingWriter, paginationOf, readListing } from '../queries/listing.ts'

export const MONEY_NOTE =
  'Amounts are integers in hundredths of the currency; `*_decimal` texts are exact for currencies of small value.'

export const PHASES_NOTE =
  'A name alone means all phases of a finish: per provider the best price, quantities together.'

export interface SideOperation extends Pick<Operation, 'id' | 'path' | 'group' | 'summary'> {
  tiers: readonly string[]
  reply: Reply
}

export const listingRoutes = (api: ApiContext): Route[] => [
  listSide(api, 'ask', {
    id: 'listPrices',
    path: '/prices',
    group: 'Prices',
    tiers: ALL,
    summary: 'Current lowest ask per provider and item',
    reply: json('PricesReply', pricesReply, 'A page of asks; empty when no provider lists the item.'),
  }),
  listSide(api, 'bid', {
    id: 'listBids',
    path: '/bids',
    group: 'Bids',
    tiers: STARTER,
    summary: 'Current highest buy order per provider and item',
    reply: json('BidsReply', bidsReply, 'A page of buy orders; empty when there is none.'),
  }),
]

function listSide(api: ApiContext, side: Side, own: SideOperation): Route {
  const { catalog, registry, tiers, fx, live } = api
  const providers = side === 'ask' ? registry.askKeys : registry.bidKeys
  const source = { side, providers, catalog, live }
  const writer = openListingWriter(side, api)
  const urlNote = side === 'ask' ? ' `url` is included on pro and quant only.' : ''
  return defineRoute({
    ...own,
    method: 'get',
    description: `${MONEY_NOTE} ${PHASES_NOTE}${urlNote}`,
    query: perTier(tiers, limits =>
      listingQuery({ providers, isCurrency: fx.isCurrency, pageMax: limits.list_page_max }),
    ),
    errors: ['ITEM_NOT_FOUND', INDEX_CODES[side]],
    uncountedCode: INDEX_CODES[side],
    async handle({ query, credential: { tier }, response }) {
      const currency = fx.currencyOf(query.currency)
      const { entries, total, filters, providersQueried, item } = await readListing(source, query)
      const members = side === 'ask' && (tier === 'pro' || tier === 'quant') ? 'entry with url' : 'entry'
      const write = () => {
        const returned = [...new Set(entries.map(({ provider }) => provider))].sort()
        const meta =
          `{"currency":"${currency.code}","filters":${ascii(filters)},` +
          `"providers_queried":${JSON.stringify(providersQueried)},"returned_providers":${JSON.stringify(returned)}}`
        const items = writer.write(entries, currency, members)
        return `{"meta":${meta},"items":${items},"pagination":${JSON.stringify(paginationOf(query, total))}}`
      }
      const name = `${members} ${currency.code} ${currency.rate.text} ${query.limit} ${query.offset} ${ascii(filters)}`
      return bytes(response, answerOf(item, name, write))
    },
  })
}

const ITEM_ID = /^\d{1,10}$/

export function openListing(api: ApiContext): Route {
  const { catalog, registry, live } = api
  const { urlOf } = openListingWriter('ask', api)
  return defineRoute({
    id: 'openListing',
    method: 'get',
    path: '/r/:provider/:item_id',
    group: 'Catalog',
    tiers: undefined,
    budget: 'redirects',
    params: redirectParams,
    areParamsChecked: false,
    summary: 'Redirect to the marketplace page of an item',
    description:
      'Needs no key; counts by address. This is the `link` of price entries. It leads to the offer whose price is shown, and to no host but those of the provider.',
    reply: {
      status: 302,
      description: 'To the marketplace.',
      headers: { Location: 'Page of the item at the provider.' },
    },
    errors: ['NOT_FOUND', 'ITEM_NOT_FOUND', 'PRICES_INDEX_UNAVAILABLE'],
    async handle({ request, response }) {
      const { provider: key, item_id: id } = request.params as { provider: string; item_id: string }
      const provider = registry.byKey.get(key)
      if (!provider) throw new HttpError('NOT_FOUND', 'There is no such provider.')
      const item = ITEM_ID.test(id) ? catalog.byId(Number(id)) : undefined
      if (!item) throw itemNotFound()
      const [listed] = await live.ofItems('ask', [item.item_id])
      const row = listed?.entries.find(entry => entry.provider === provider.key)?.row
      const url = urlOf(provider, item, row)
      if (url === undefined) throw new HttpError('NOT_FOUND', 'The offer is at no host of its provider.')
      return bytes(response, undefined, { status: 302, headers: ['Location', url] })
    },
  })
}
