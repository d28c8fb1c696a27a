/**
 * Which live entries GET /prices and GET /bids answer with, and their text.
 *
 * Rules: DECISIONS.md, "Prices and bids". Answers made of one item alone are kept with it (LiveItem.answers), so that an item that does
 * not change costs no text: JSON.stringify of 41 objects took 30 us, writing their texts 20. The text is that of
 * schemas/api/entry-text.ts, which bulk snapshots share; test/contract holds it against the zod schema.
 */
import { marketplaceUrl, type Provider } from '#infra/config/providers.ts'
import { HttpError } from '#infra/http/http-error.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { type AnswerCurrency, type EntryMembers, openEntryText } from '#schemas/api/entry-text.ts'
import type { ListingMeta, ListingQuery } from '#schemas/api/listing.ts'
import type { OffsetPagination } from '#schemas/api/reply-values.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import type { LiveEntry, LiveItem, LiveReader } from '#streams/live-view/reader.ts'
import type { ApiContext } from '../context.ts'
import { nearestName } from './near-names.ts'

export interface ListingSource {
  side: Side
  live: LiveReader
  catalog: CatalogReader
  /** All provider keys of the side, sorted. */
  providers: readonly string[]
}

type AppliedFilters = ListingMeta['filters']

/** Reads the page of a listing that a query asks for; `filters` are those that take effect, `item` the one that it is made of alone. */
export async function readListing({ side, live, catalog, providers }: ListingSource, query: ListingQuery) {
  const { offset, limit, market_hash_name: name } = query
  const { queried: providersQueried, isChosen } = chosenProviders(providers, query.providers)
  const filters: AppliedFilters = {
    ...itemFilters(query),
    ...(query.providers && { requested_providers: [...providersQueried] }),
  }
  const ids = chosenItems(catalog, query)
  if (ids === undefined) {
    const page = await live.listing(side, providersQueried, offset, limit)
    return { ...page, filters, providersQueried, item: undefined }
  }
  const items = await live.ofItems(side, ids)
  const rows = items.flatMap(item => item.entries)
  let entries = query.providers ? rows.filter(({ provider }) => isChosen(provider)) : rows
  if (ids.length > 1) entries = name ? mergePhases(side, entries, ids[0] as number) : inListingOrder(entries)
  const page = { entries: entries.slice(offset, offset + limit), total: entries.length }
  return { ...page, filters, providersQueried, item: ids.length === 1 ? items[0] : undefined }
}

/** The providers that a request asks for, in the order of their keys; all where it names none. */
export function chosenProviders(keys: readonly string[], requested: readonly string[] | undefined) {
  if (!requested || requested.length === 0) return { queried: keys, isChosen: () => true }
  const chosen = new Set(requested)
  return { queried: keys.filter(key => chosen.has(key)), isChosen: (key: string) => chosen.has(key) }
}

type ItemFilters = Pick<AppliedFilters, 'item_id' | 'market_hash_name' | 'phase'>

/** The item filters that take effect: an id overrides name and phase. */
export function itemFilters(query: Pick<ListingQuery, 'item_id' | 'market_hash_name' | 'phase'>): ItemFilters {
  const { item_id, market_hash_name, phase } = query
  if (item_id !== undefined) return { item_id }
  return { ...(market_hash_name !== undefined && { market_hash_name }), ...(phase !== undefined && { phase }) }
}

export function paginationOf(page: { limit: number; offset: number }, total: number): OffsetPagination {
  const { limit, offset } = page
  return { limit, offset, total, has_next: offset + limit < total, has_prev: offset > 0 }
}

/** The item that a request names is not in the catalog; `nearest` is the name that may have been meant. */
export function itemNotFound(nearest?: string): HttpError {
  if (nearest === undefined) {
    return new HttpError('ITEM_NOT_FOUND', 'No catalog item has this id, or this name and phase.')
  }
  return new HttpError('ITEM_NOT_FOUND', `No catalog item has this name; the nearest is "${nearest}".`)
}

/** The members by which answers name an item. */
export function itemNames(item: Pick<CatalogItem, 'item_id' | 'market_hash_name' | 'phase'>) {
  const { item_id, market_hash_name, phase } = item
  return { item_id, market_hash_name, phase }
}

/** The ids that a query names; undefined when it names none. Throws the 404 for what the catalog does not know. */
export function chosenItems(
  catalog: CatalogReader,
  query: Pick<ListingQuery, 'item_id' | 'market_hash_name' | 'phase'>,
): readonly number[] | undefined {
  const { item_id, market_hash_name: name, phase } = query
  if (item_id !== undefined) {
    if (!catalog.byId(item_id)) throw itemNotFound()
    return [item_id]
  }
  if (name !== undefined) {
    const id = phase === undefined ? undefined : catalog.idOf(name, phase)
    const ids = phase === undefined ? catalog.idsOfName(name) : id === undefined ? [] : [id]
    if (ids.length === 0) throw itemNotFound(nearestName(catalog, name))
    return ids
  }
  return phase === undefined ? undefined : itemsOfPhase(catalog, phase)
}

/** The items of a request that must name one, and the item that represents them all: the finish itself, of its phases. */
export function namedItems(
  catalog: CatalogReader,
  query: Pick<ListingQuery, 'item_id' | 'market_hash_name' | 'phase'>,
): { ids: readonly number[]; item: CatalogItem } {
  const ids = chosenItems(catalog, query) ?? []
  const item = catalog.byId(ids[0] ?? -1)
  if (!item) throw itemNotFound()
  return { ids, item }
}

const itemsOfPhase = (catalog: CatalogReader, phase: string): number[] =>
  catalog.items().flatMap(item => (item.phase === phase ? item.item_id : []))

/**
 * One entry per provider: the best price of all phases, their quantities together, under the finish's own id. It leads to the
 * phase of that price.
 */
export function mergePhases(side: Side, entries: readonly LiveEntry[], finishId: number): ListedEntry[] {
  const byProvider = Map.groupBy(entries, entry => entry.provider)
  const merged = [...byProvider].map(([provider, phasesOf]) => {
    const best = phasesOf.reduce((one, other) => (isBetter(side, other, one) ? other : one))
    const row = {
      ...best.row,
      quantity: phasesOf.reduce((sum, { row }) => sum + row.quantity, 0),
      seenAt: Math.max(...phasesOf.map(({ row }) => row.seenAt)),
    }
    const lastUpdatedAt = Math.max(...phasesOf.map(entry => entry.lastUpdatedAt))
    return { itemId: finishId, provider, row, lastUpdatedAt, offeredItemId: best.itemId }
  })
  return merged.sort((a, b) => (a.provider < b.provider ? -1 : 1))
}

/** Native prices decide where they can be compared: refreshes of one provider may have had different rates. */
function isBetter(side: Side, one: LiveEntry, other: LiveEntry): boolean {
  const isSameCurrency = one.row.currency === other.row.currency
  const difference = isSameCurrency ? one.row.price - other.row.price : one.row.priceMicroUsd - other.row.priceMicroUsd
  return side === 'ask' ? difference < 0 : difference > 0
}

/** The order of the broad listing: provider, partition, item id. */
function inListingOrder(entries: readonly LiveEntry[]): LiveEntry[] {
  return entries
    .map(entry => ({ entry, partition: partitionOfItem(entry.itemId) }))
    .sort((a, b) => {
      const [one, other] = [a.entry.provider, b.entry.provider]
      if (one !== other) return one < other ? -1 : 1
      return a.partition - b.partition || a.entry.itemId - b.entry.itemId
    })
    .map(({ entry }) => entry)
}

export interface ListedEntry extends LiveEntry {
  /** The phase whose price it shows, where it stands for all phases of a finish. */
  offeredItemId?: number
}

/** Of an item, some 14 kB each: mostly its entries and its quotes, in US dollars. */
const ANSWERS_KEPT = 2

/** The bytes of a text in ASCII; where it is made of an item alone, those made before by the name, while the item is the same. */
export function answerOf(item: LiveItem | undefined, name: string, write: () => string): Buffer {
  const known = item?.answers.get(name)
  if (known) return known
  const answer = Buffer.from(write(), 'latin1')
  if (item === undefined) return answer
  const [oldest] = item.answers.keys()
  if (oldest !== undefined && item.answers.size >= ANSWERS_KEPT) item.answers.delete(oldest)
  item.answers.set(name, answer)
  return answer
}

export function openListingWriter(side: Side, { catalog, registry, baseUrl }: ApiContext) {
  const itemOf = (id: number) => catalog.byId(id)
  const providerOf = (key: string) => registry.byKey.get(key)
  const { opening, closing, urlOf } = openEntryText<Provider>(side, { itemOf, providerOf, baseUrl, marketplaceUrl })
  return {
    urlOf,
    /** The entries as a JSON array, in ASCII; those whose item or provider is unknown here are left out. */
    write(entries: readonly ListedEntry[], currency: AnswerCurrency, members: EntryMembers): string {
      const texts = entries.flatMap(entry => {
        const text = opening(entry, currency, members)
        return text === undefined ? [] : text + closing(entry.lastUpdatedAt)
      })
      return `[${texts.join(',')}]`
    },
  }
}
