/**
 * Which quotes POST /prices/batch and POST /bids/batch answer with.
 *
 * Reads the live view once and the catalog. Rules: DECISIONS.md, "Prices and bids". An item is in the answer once, however
 * often it was asked for; a name means its finish and merges the phases as GET /prices does, so that both give the same
 * price for the same name.
 */
import type { BatchBody } from '#schemas/api/batch.ts'
import type { LiveEntry } from '#streams/live-view/reader.ts'
import { type ListingSource, mergePhases } from './listing.ts'

/** The answer to a batch, before it is written. */
export interface BatchQuotes {
  /** Items with a quote, in the order of the request; their quotes in the order of the providers' keys. */
  found: { itemId: number; entries: LiveEntry[] }[]
  itemsNotFound: number[]
  namesNotFound: string[]
  providersQueried: readonly string[]
}

/** Reads the quotes that a batch asks for. */
export async function readBatch(source: ListingSource, body: BatchBody): Promise<BatchQuotes> {
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
