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
import type { LiveEntry } from '#streams/live-view/reader.ts'
import type { ApiContext } from '../context.ts'
import { type ListingSource, mergePhases, openListingWriter } from '../queries/listing.ts'
import { MONEY_NOTE, PHASES_NOTE } from './listings.ts'

export const batchRoutes = (api: ApiContext): Route[] => [batchPrices(api), batchBids(api)]

const OPEN = {
  method: 'post',
  tiers: STARTER,
  description: `By ids, names or both. ${PHASES_NOTE} ${MONEY_NOTE}`,
} as const

function batchPrices(api: ApiContext): Route {
  const { body, write } = openSide(api, 'ask')
  return defineRoute({
    ...OPEN,
    id: 'batchGetPrices',
    path: '/prices/batch',
    group: 'Prices',
    summary: 'Current lowest asks of up to 100 items',
    body,
    reply: json('PricesBatchReply', pricesBatchReply, 'One entry per item that any provider lists.'),
    errors: ['PRICES_INDEX_UNAVAILABLE'],
    uncountedCode: 'PRICES_INDEX_UNAVAILABLE',
    handle: async ({ body, response }) => bytes(response, await write(body)),
  })
}

function batchBids(api: ApiContext): Route {
  const { body, write } = openSide(api, 'bid')
  return defineRoute({
    ...OPEN,
    id: 'batchGetBids',
    path: '/bids/batch',
    group: 'Bids',
    summary: 'Current highest buy orders of up to 100 items',
    body,
    reply: json('BidsBatchReply', bidsBatchReply, 'One entry per item that has a buy order.'),
    errors: ['BIDS_INDEX_UNAVAILABLE'],
    uncountedCode: 'BIDS_INDEX_UNAVAILABLE',
    handle: async ({ body, response }) => bytes(response, await write(body)),
  })
}

function openSide(api: ApiContext, side: Side) {
  const { catalog, registry, fx, live, now } = api
  const providers = side === 'ask' ? registry.askKeys : registry.bidKeys
  const writer = openListingWriter(side, api)
  const source = { side, providers, catalog, live }
  const write = async (body: BatchBody): Promise<string> => {
    const currency = fx.currencyOf(body.currency)
    const batch = await readBatch(source, body)
    const items = batch.found.map(({ itemId, entries }) => {
      const { market_hash_name, phase } = catalog.byId(itemId) as CatalogItem
      const named = `"item_id":${itemId},"market_hash_name":${ascii(market_hash_name)},"phase":${ascii(phase)}`
      return `{${named},"quotes":${writer.write(entries, currency, 'quote')}}`
    })
    const meta = ascii({
      currency: currency.code,
      requested_item_count: (body.item_ids?.length ?? 0) + (body.market_hash_names?.length ?? 0),
      found_item_count: items.length,
      providers_queried: batch.providersQueried,
      generated_at: formatInstant(now()),
    })
    const missing = `"items_not_found":${ascii(batch.itemsNotFound)},"names_not_found":${ascii(batch.namesNotFound)}`
    return `{"meta":${meta},"items":[${items.join(',')}],${missing}}`
  }
  return { write, body: batchBody({ providers, isCurrency: fx.isCurrency }) }
}

/** The answer to a batch, before it is written. */
interface BatchQuotes {
  /** Items with a quote, in the order of the request; their quotes in the order of the providers' keys. */
  found: { itemId: number; entries: LiveEntry[] }[]
  itemsNotFound: number[]
  namesNotFound: string[]
  providersQueried: readonly string[]
}

/** Reads the quotes that a batch asks for. */
async function readBatch(source: ListingSource, body: BatchBody): Promise<BatchQuotes> {
  const { side, live, catalog, providers } = source
  const { wanted, namesNotFound } = wantedItems(source, body)
  const known = new Set([...wanted.values()].flat().filter(id => catalog.byId(id)))
  const isAll = !body.providers || body.providers.length === 0
  const chosen = isAll ? undefined : new Set(body.providers)
  const entries = await live.ofItems(side, [...known])
  const byItem = Map.groupBy(
    chosen ? entries.filter(({ listed }) => chosen.has(listed.provider)) : entries,
    entry => entry.itemId,
  )
  const found: BatchQuotes['found'] = []
  const itemsNotFound: number[] = []
  for (const [itemId, ids] of wanted) {
    const rows = ids.flatMap(id => byItem.get(id) ?? [])
    if (rows.length === 0) itemsNotFound.push(itemId)
    else found.push({ itemId, entries: ids.length === 1 ? rows : mergePhases(side, rows, itemId) })
  }
  const providersQueried = chosen ? providers.filter(key => chosen.has(key)) : providers
  return { found, itemsNotFound, namesNotFound, providersQueried }
}

/** Item id of an entry → the ids whose rows make it: its own, or those of all its phases. */
function wantedItems(
  { catalog }: ListingSource,
  body: BatchBody,
): { wanted: Map<number, readonly number[]>; namesNotFound: string[] } {
  const wanted = new Map<number, readonly number[]>((body.item_ids ?? []).map(id => [id, [id]]))
  const namesNotFound = new Set<string>()
  for (const name of body.market_hash_names ?? []) {
    const ids = catalog.idsOfName(name)
    const [finish] = ids
    if (finish === undefined) namesNotFound.add(name)
    else wanted.set(finish, ids)
  }
  return { wanted, namesNotFound: [...namesNotFound] }
}
