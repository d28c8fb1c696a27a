/**
 * GET /prices and GET /bids: the lowest ask and the highest buy order of each provider.
 *
 * Rules: DECISIONS.md, "Prices and bids". The answer is written as text (listing-text.ts); its schema is
 * schemas/api/listing.ts.
 */
import type { Router } from 'express'
import { type AnswerCurrency, ascii } from '#schemas/api/entry-text.ts'
import { type ListingQuery, listingQuery } from '#schemas/api/listing.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { type Allow, credentialOf } from '../guard.ts'
import { type ListingWriter, openListingWriter } from '../listing-text.ts'
import { type ApiParts, perTier } from '../parts.ts'
import { type Listing, paginationOf, readListing } from '../queries/listing.ts'
import { sendAscii } from '../reply.ts'
import { parse } from '../request.ts'

/** Adds both routes. */
export function addListingRoutes(router: Router, allow: Allow, parts: ApiParts): void {
  const { catalog, registry, fx } = parts
  const asks = openSide(parts, 'ask')
  const bids = openSide(parts, 'bid')
  const ofAsks = { ...parts, side: 'ask', providers: registry.askKeys, catalog } as const
  const ofBids = { ...parts, side: 'bid', providers: registry.bidKeys, catalog } as const

  router.get('/prices', allow('free', 'starter', 'pro', 'quant'), async (request, response) => {
    const { tier } = credentialOf(response)
    const query = parse(asks.query[tier], request)
    const currency = fx.currencyOf(query.currency)
    const listing = await readListing(ofAsks, query)
    sendAscii(response, 200, asks.body(listing, query, currency, tier === 'pro' || tier === 'quant'))
  })

  router.get('/bids', allow('starter', 'pro', 'quant'), async (request, response) => {
    const query = parse(bids.query[credentialOf(response).tier], request)
    const currency = fx.currencyOf(query.currency)
    const listing = await readListing(ofBids, query)
    sendAscii(response, 200, bids.body(listing, query, currency, false))
  })
}

function openSide(parts: ApiParts, side: Side) {
  const { catalog, registry, fx, baseUrl } = parts
  const providers = side === 'ask' ? registry.askKeys : registry.bidKeys
  const writer = openListingWriter(side, {
    itemOf: id => catalog.byId(id),
    providerOf: key => registry.byKey.get(key),
    baseUrl,
  })
  return {
    query: perTier(parts, limits =>
      listingQuery({ providers, isCurrency: code => fx.isCurrency(code), pageMax: limits.list_page_max }),
    ),
    body: keepingBodies(writer),
  }
}

type Body = (listing: Listing, query: ListingQuery, currency: AnswerCurrency, withUrl: boolean) => string | Buffer

/** Bodies kept with the entries of an item: by id and by name, with and without URL, or another currency. */
const BODIES_KEPT = 2

/** The request of a body, and the body from the second time on. */
interface KeptBody {
  name: string
  body: Buffer | undefined
}

/**
 * Writes bodies, and caches those of single items for as long as their entries: most items do not change between two
 * requests. A body that is requested only once is not cached, since that would cost more than it saves.
 *
 * They are cached as bytes: Node joins a text with its head, which copies it twice and leaves it to the collector, and above
 * 16 KiB, as with all providers, does not even try to send it at once. Of 36 us that Node takes for 16 kB, bytes save 7.
 */
function keepingBodies(writer: ListingWriter): Body {
  const kept = new WeakMap<readonly unknown[], KeptBody[]>()
  return (listing, query, currency, withUrl) => {
    const { entries, filters } = listing
    const write = () => listingText(writer, listing, query, currency, withUrl)
    const isOfOneItem = filters.item_id !== undefined || filters.market_hash_name !== undefined
    if (!isOfOneItem || filters.requested_providers || query.offset > 0) return write()
    const { item_id = '', market_hash_name = '', phase = '' } = filters
    const name = `${currency.code} ${currency.rate.text} ${withUrl} ${query.limit} ${item_id}\0${market_hash_name}\0${phase}`
    const bodies = kept.get(entries)
    const known = bodies?.find(one => one.name === name)
    if (known) {
      known.body ??= Buffer.from(write(), 'latin1')
      return known.body
    }
    if (bodies) bodies.splice(0, bodies.length - BODIES_KEPT + 1)
    if (bodies) bodies.push({ name, body: undefined })
    else kept.set(entries, [{ name, body: undefined }])
    return write()
  }
}

function listingText(
  writer: ListingWriter,
  listing: Listing,
  query: ListingQuery,
  currency: AnswerCurrency,
  withUrl: boolean,
): string {
  const { entries, filters, providersQueried, total } = listing
  const returned = [...new Set(entries.map(entry => entry.listed.provider))].sort()
  const queriedText = keysText(providersQueried)
  const returnedText = returned.length === providersQueried.length ? queriedText : JSON.stringify(returned)
  const meta =
    `{"currency":"${currency.code}","filters":${ascii(filters)},` +
    `"providers_queried":${queriedText},"returned_providers":${returnedText}}`
  const items = writer.write(entries, currency, withUrl)
  return `{"meta":${meta},"items":${items},"pagination":${JSON.stringify(paginationOf(query, total))}}`
}

const keysTexts = new WeakMap<readonly string[], string>()

/** Without a provider filter the list is the same array every time. */
function keysText(keys: readonly string[]): string {
  const known = keysTexts.get(keys) ?? JSON.stringify(keys)
  keysTexts.set(keys, known)
  return known
}
