/**
 * Which live entries GET /prices and GET /bids answer with.
 *
 * Rules: DECISIONS.md, "Prices and bids".
 */
import { HttpError } from '#infra/http/http-error.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import type { ListingMeta, ListingQuery } from '#schemas/api/listing.ts'
import type { OffsetPagination } from '#schemas/api/reply-values.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import type { ListingPage, LiveEntry } from '#streams/live-view/reader.ts'
import type { ListedEntry } from '../listing-text.ts'
import type { LiveView } from './live-view.ts'
import { nearestName } from './near-names.ts'

/** What a listing is read from. */
export interface ListingSource {
  side: Side
  live: LiveView
  catalog: CatalogReader
  /** All provider keys of the side, sorted. */
  providers: readonly string[]
}

/** The filters of a query that take effect. */
type AppliedFilters = ListingMeta['filters']

/** A page of a listing and what it answers to. */
export interface Listing extends ListingPage {
  filters: AppliedFilters
  providersQueried: readonly string[]
}

/** Reads the page of a listing that a query asks for. */
export async function readListing(source: ListingSource, query: ListingQuery): Promise<Listing> {
  const requested = query.providers && source.providers.filter(key => query.providers?.includes(key))
  const providersQueried = requested ?? source.providers
  const filters: AppliedFilters = {
    ...itemFilters(query),
    ...(requested && { requested_providers: requested }),
  }
  const ids = chosenItems(source.catalog, query)
  if (ids === undefined) {
    const { offset, limit } = query
    const { entries, total } = await source.live.listing(source.side, providersQueried, offset, limit)
    return { entries, total, filters, providersQueried }
  }
  const read = source.live.ofItems(source.side, ids)
  // A result that is there at once is not awaited.
  const found = read instanceof Promise ? await read : read
  const { entries, total } = pageOf(source, query, ids, found, providersQueried)
  return { entries, total, filters, providersQueried }
}

/** The item filters of a query that take effect. */
type ItemFilters = Pick<AppliedFilters, 'item_id' | 'market_hash_name' | 'phase'>

/** The item filters that take effect: an id overrides name and phase. */
export function itemFilters(query: Pick<ListingQuery, 'item_id' | 'market_hash_name' | 'phase'>): ItemFilters {
  const { item_id, market_hash_name, phase } = query
  if (item_id !== undefined) return { item_id }
  return { ...(market_hash_name !== undefined && { market_hash_name }), ...(phase !== undefined && { phase }) }
}

/** The pagination of a page by offset. */
export function paginationOf(page: { limit: number; offset: number }, total: number): OffsetPagination {
  const { limit, offset } = page
  return { limit, offset, total, has_next: offset + limit < total, has_prev: offset > 0 }
}

function pageOf(
  source: ListingSource,
  query: ListingQuery,
  ids: readonly number[],
  found: readonly LiveEntry[],
  providers: readonly string[],
): ListingPage {
  const { offset, limit } = query
  const wanted =
    providers === source.providers ? found : found.filter(entry => providers.includes(entry.listed.provider))
  const entries = arrange(source, query, ids, wanted)
  // An untouched array stays the one that answers are kept with.
  const page = offset === 0 && limit >= entries.length ? entries : entries.slice(offset, offset + limit)
  return { entries: page, total: entries.length }
}

/** The item that a request names is not in the catalog; `nearest` is the name that may have been meant. */
export function itemNotFound(nearest?: string): HttpError {
  if (nearest === undefined) {
    return new HttpError('ITEM_NOT_FOUND', 'No catalog item has this id, or this name and phase.')
  }
  return new HttpError('ITEM_NOT_FOUND', `No catalog item has this name; the nearest is "${nearest}".`)
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

const phases = new WeakMap<readonly unknown[], Map<string | null, number[]>>()

function itemsOfPhase(catalog: CatalogReader, phase: string): readonly number[] {
  const items = catalog.items()
  let byPhase = phases.get(items)
  if (!byPhase) {
    byPhase = new Map()
    for (const item of items) {
      if (item.phase !== null) byPhase.set(item.phase, [...(byPhase.get(item.phase) ?? []), item.item_id])
    }
    phases.set(items, byPhase)
  }
  return byPhase.get(phase) ?? []
}

function arrange(
  source: ListingSource,
  query: ListingQuery,
  ids: readonly number[],
  entries: readonly LiveEntry[],
): readonly LiveEntry[] {
  if (ids.length === 1) return entries
  const isOneFinish = query.item_id === undefined && query.market_hash_name !== undefined
  return isOneFinish ? mergePhases(source.side, entries, ids[0] as number) : inListingOrder(entries)
}

/**
 * One entry per provider: the best price of all phases, their quantities together, under the finish's own id. It leads to the
 * phase of that price.
 */
export function mergePhases(side: Side, entries: readonly LiveEntry[], finishId: number): ListedEntry[] {
  const byProvider = Map.groupBy(entries, entry => entry.listed.provider)
  const merged = [...byProvider].map(([provider, phasesOf]) => {
    const best = phasesOf.reduce((one, other) => (isBetter(side, other.listed, one.listed) ? other : one))
    const row = {
      ...best.listed.row,
      quantity: phasesOf.reduce((sum, { listed }) => sum + listed.row.quantity, 0),
      seenAt: Math.max(...phasesOf.map(({ listed }) => listed.row.seenAt)),
    }
    const lastUpdatedAt = Math.max(...phasesOf.map(entry => entry.lastUpdatedAt))
    const listed = { provider, text: best.listed.text, row, serialised: [] }
    return { itemId: finishId, listed, lastUpdatedAt, offeredItemId: best.itemId }
  })
  return merged.sort((a, b) => (a.listed.provider < b.listed.provider ? -1 : 1))
}

/** Native prices decide where they can be compared: refreshes of one provider may have had different rates. */
function isBetter(side: Side, one: LiveEntry['listed'], other: LiveEntry['listed']): boolean {
  const isSameCurrency = one.row.currency === other.row.currency
  const difference = isSameCurrency ? one.row.price - other.row.price : one.row.priceMicroUsd - other.row.priceMicroUsd
  return side === 'ask' ? difference < 0 : difference > 0
}

/** The order of the broad listing: provider, partition, item id. */
function inListingOrder(entries: readonly LiveEntry[]): LiveEntry[] {
  return entries
    .map(entry => ({ entry, partition: partitionOfItem(entry.itemId) }))
    .sort((a, b) => {
      const [one, other] = [a.entry.listed.provider, b.entry.listed.provider]
      if (one !== other) return one < other ? -1 : 1
      return a.partition - b.partition || a.entry.itemId - b.entry.itemId
    })
    .map(({ entry }) => entry)
}
