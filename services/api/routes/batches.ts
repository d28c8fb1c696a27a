/**
 * POST /prices/batch and POST /bids/batch: the quotes of up to a hundred items in one answer.
 *
 * Reads the live view once and the catalog. An item is in the answer once, however often it was asked for; a name means its
 * finish and merges the phases as GET /prices does, so that both give the same price for the same name. Rules: DECISIONS.md,
 * "Prices and bids". Written as text (queries/listing.ts); its schema is schemas/api/batch.ts.
 */
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { bytes } from '#infra/http/reply.ts'
import { type BatchBody, batchBody, bidsBatchReply, pricesBatchReply } from '#schemas/api/batch.ts'
import { ascii } from '#schemas/api/entry-text.ts'
import { json, STARTER } from '#schemas/api/operation.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { type ApiContext, INDEX_CODES } from '../context.ts'
import { answerOf, chosenProviders, type ListingSource, mergePhases, openListingWriter } from '../queries/listing.ts'
import { MONEY_NOTE, PHASES_NOTE, type SideOperation } from './listings.ts'

export const batchRoutes = (api: ApiContext): Route[] => [
  batchSide(api, 'ask', {
    id: 'batchGetPrices',
    path: '/prices/batch',
    group: 'Prices',
    tiers: STARTER,
    summary: 'Current lowest asks of up to 100 items',
    reply: json('PricesBatchReply', pricesBatchReply, 'One entry per item that any provider lists.'),
  }),
  batchSide(api, 'bid', {
    id: 'batchGetBids',
    path: '/bids/batch',
    group: 'Bids',
    tiers: STARTER,
    summary: 'Current highest buy orders of up to 100 items',
    reply: json('BidsBatchReply', bidsBatchReply, 'One entry per item that has a buy order.'),
  }),
]

const COMMA = Buffer.from(',')

function batchSide(api: ApiContext, side: Side, own: SideOperation): Route {
  const { catalog, registry, fx, live, now } = api
  const providers = side === 'ask' ? registry.askKeys : registry.bidKeys
  const writer = openListingWriter(side, api)
  return defineRoute({
    ...own,
    method: 'post',
    description: `By ids, names or both. ${PHASES_NOTE} ${MONEY_NOTE}`,
    body: batchBody({ providers, isCurrency: fx.isCurrency }),
    errors: [INDEX_CODES[side]],
    uncountedCode: INDEX_CODES[side],
    async handle({ body, response }) {
      const currency = fx.currencyOf(body.currency)
      const batch = await readBatch({ side, providers, catalog, live }, body)
      const items = batch.quoted.map(({ itemId, entries, item }) => {
        const write = () => {
          const { market_hash_name, phase } = catalog.byId(itemId) as CatalogItem
          const named = `"item_id":${itemId},"market_hash_name":${ascii(market_hash_name)},"phase":${ascii(phase)}`
          return `{${named},"quotes":${writer.write(entries, currency, 'quote')}}`
        }
        return answerOf(item, `quotes ${currency.code} ${currency.rate.text}`, write)
      })
      const meta = ascii({
        currency: currency.code,
        requested_item_count: (body.item_ids?.length ?? 0) + (body.market_hash_names?.length ?? 0),
        found_item_count: items.length,
        providers_queried: batch.providersQueried,
        generated_at: formatInstant(now()),
      })
      const missing = `"items_not_found":${ascii(batch.itemsNotFound)},"names_not_found":${ascii(batch.namesNotFound)}`
      const pieces = items.flatMap((item, at) => (at === 0 ? item : [COMMA, item]))
      const [start, end] = [Buffer.from(`{"meta":${meta},"items":[`), Buffer.from(`],${missing}}`)]
      return bytes(response, Buffer.concat([start, ...pieces, end]))
    },
  })
}

/**
 * Reads the quotes that a batch asks for. The quoted items are in the order of the request, their quotes in the order of the providers'
 * keys; a name means its finish, of which the rows of all phases make one entry.
 */
async function readBatch({ side, live, catalog, providers }: ListingSource, body: BatchBody) {
  /** Item id of an entry → the ids whose rows make it: its own, or those of all its phases. */
  const requested = new Map<number, readonly number[]>((body.item_ids ?? []).map(id => [id, [id]]))
  const namesNotFound = new Set<string>()
  for (const name of body.market_hash_names ?? []) {
    const ids = catalog.idsOfName(name)
    const [finish] = ids
    if (finish === undefined) namesNotFound.add(name)
    else requested.set(finish, ids)
  }
  const itemIds = new Set([...requested.values()].flat().filter(id => catalog.byId(id)))
  const { queried, isChosen } = chosenProviders(providers, body.providers)
  const read = await live.ofItems(side, [...itemIds])
  const itemOf = new Map(read.map(item => [item.itemId, item]))
  const all = [...requested].map(([itemId, ids]) => {
    const own = ids.flatMap(id => itemOf.get(id) ?? [])
    const rows = own.flatMap(({ entries }) => entries).filter(({ provider }) => isChosen(provider))
    if (ids.length > 1 && rows.length > 0) return { itemId, entries: mergePhases(side, rows, itemId) }
    return { itemId, entries: rows, item: queried === providers ? own[0] : undefined }
  })
  return {
    quoted: all.filter(one => one.entries.length > 0),
    itemsNotFound: all.filter(one => one.entries.length === 0).map(({ itemId }) => itemId),
    namesNotFound: [...namesNotFound],
    providersQueried: queried,
  }
}
