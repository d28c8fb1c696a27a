/**
 * Which kind each item is of, so that a search for `knife` finds knives. 40 pages of the catalog, so they are kept for a day in the browser's
 * cache; they are of no account.
 */
import type { Marketlog } from '#services/clients/typescript/src/marketlog.ts'

export interface KnownItem {
  id: number
  name: string
  phase: string | null
  kind: string | null
}

const CACHE = 'marketlog-catalog'
const KEEP_MS = 86_400_000
const PAGE = 1_000

/** A cache is there on https and on this machine alone; without one the catalog is read each time. */
export async function readKinds(client: Marketlog, signal: AbortSignal): Promise<KnownItem[]> {
  const cache = 'caches' in globalThis ? await caches.open(CACHE) : undefined
  const stored: { readAt: number; items: KnownItem[] } | undefined = await (await cache?.match('items'))?.json()
  if (stored && Date.now() - stored.readAt < KEEP_MS) return stored.items
  const items: KnownItem[] = []
  for await (const { item_id, market_hash_name, phase, item_subtype, item_type } of client.pages(
    'listItems',
    { limit: PAGE },
    { signal },
  ))
    items.push({ id: item_id, name: market_hash_name, phase, kind: item_subtype ?? item_type })
  await cache?.put('items', Response.json({ readAt: Date.now(), items }))
  return items
}
