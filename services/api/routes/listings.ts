/**
 * GET /prices and GET /bids: the lowest ask and the highest buy order of each provider.
 *
 * Rules: DECISIONS.md, "Prices and bids". The answer is written as text (listing-text.ts), and kept for items that do not change; its
 * schema is schemas/api/listing.ts.
 */
import type { ProviderRegistry } from '#infra/config/providers.ts'
import type { Tier, TierLimits } from '#infra/config/tiers.ts'
import { defineRoute, perTier, type Route } from '#infra/http/define-route.ts'
import { bytes } from '#infra/http/reply.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { type AnswerCurrency, ascii } from '#schemas/api/entry-text.ts'
import { bidsReply, type ListingQuery, listingQuery, pricesReply } from '#schemas/api/listing.ts'
import { ALL, json, STARTER } from '#schemas/api/operation.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { type ListingWriter, openListingWriter } from '../listing-text.ts'
import type { FxRates } from '../queries/fx-rates.ts'
import { type Listing, paginationOf, readListing } from '../queries/listing.ts'
import type { LiveView } from '../queries/live-view.ts'

/** What the listings need. */
export interface ListingNeeds {
  catalog: CatalogReader
  registry: ProviderRegistry
  tiers: Record<Tier, TierLimits>
  fx: FxRates
  live: LiveView
  baseUrl: string
}

/** What is said of amounts wherever prices are answered. */
export const MONEY_NOTE =
  'Amounts are integers in hundredths of the currency; `*_decimal` texts are exact for currencies of small value.'

/** What is said of names wherever they choose items. */
export const PHASES_NOTE =
  'A name alone means all phases of a finish: per provider the best price, quantities together.'

/** Both routes. */
export const listingRoutes = (needs: ListingNeeds): Route[] => [listPrices(needs), listBids(needs)]

const listPrices = (needs: ListingNeeds): Route => {
  const { query, body, source } = openSide(needs, 'ask')
  return defineRoute({
    id: 'listPrices',
    method: 'get',
    path: '/prices',
    group: 'Prices',
    tiers: ALL,
    summary: 'Current lowest ask per provider and item',
    description: `${MONEY_NOTE} ${PHASES_NOTE} \`url\` is included on pro and quant only.`,
    query,
    reply: json('PricesReply', pricesReply, 'A page of asks; empty when no provider lists the item.'),
    errors: ['ITEM_NOT_FOUND', 'PRICES_INDEX_UNAVAILABLE'],
    uncountedCode: 'PRICES_INDEX_UNAVAILABLE',
    async handle({ query, credential: { tier }, response }) {
      const currency = needs.fx.currencyOf(query.currency)
      const listing = await readListing(source, query)
      return bytes(response, body(listing, query, currency, tier === 'pro' || tier === 'quant'))
    },
  })
}

const listBids = (needs: ListingNeeds): Route => {
  const { query, body, source } = openSide(needs, 'bid')
  return defineRoute({
    id: 'listBids',
    method: 'get',
    path: '/bids',
    group: 'Bids',
    tiers: STARTER,
    summary: 'Current highest buy order per provider and item',
    description: `${MONEY_NOTE} ${PHASES_NOTE}`,
    query,
    reply: json('BidsReply', bidsReply, 'A page of buy orders; empty when there is none.'),
    errors: ['ITEM_NOT_FOUND', 'BIDS_INDEX_UNAVAILABLE'],
    uncountedCode: 'BIDS_INDEX_UNAVAILABLE',
    async handle({ query, response }) {
      const currency = needs.fx.currencyOf(query.currency)
      return bytes(response, body(await readListing(source, query), query, currency, false))
    },
  })
}

function openSide({ catalog, registry, tiers, fx, live, baseUrl }: ListingNeeds, side: Side) {
  const providers = side === 'ask' ? registry.askKeys : registry.bidKeys
  const writer = openListingWriter(side, {
    itemOf: id => catalog.byId(id),
    providerOf: key => registry.byKey.get(key),
    baseUrl,
  })
  return {
    source: { side, providers, catalog, live },
    query: perTier(tiers, limits =>
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
