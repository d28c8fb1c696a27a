/**
 * Keeps the catalog in memory from its compacted topic.
 *
 * Read once per process and shared by its roles. Invariant: lookups answer from whole versions of a
 * single item; an item never disappears, since ids are never reused.
 */
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { nameKey } from '#schemas/values/item-name.ts'
import type { KafkaConnection } from './connection.ts'
import { follow } from './follower.ts'
import { decodeLearning } from './learning.ts'

/** The catalog in memory. */
export interface CatalogReader {
  /** All items by ascending id; a new array after a change. */
  items(): readonly CatalogItem[]
  byId(itemId: number): CatalogItem | undefined
  /** The item of a name and phase; a null phase is the phaseless entry. */
  idOf(marketHashName: string, phase: string | null): number | undefined
  /** All items that share a name, the phaseless entry first. */
  idsOfName(marketHashName: string): readonly number[]
  /** The published version; changes when items do. */
  version(): string
  close(): Promise<void>
}

const EMPTY: readonly number[] = []

/** Reads the catalog to its end and keeps following it. Rejects when the log holds none. */
export async function openCatalogReader(kafka: KafkaConnection): Promise<CatalogReader> {
  const ids = new Map<string, number>()
  const byId = new Map<number, CatalogItem>()
  const byName = new Map<string, number[]>()
  let version = ''
  let sorted: readonly CatalogItem[] | undefined
  const shared = openSharing()
  const keep = (item: CatalogItem): void => {
    const isNew = !byId.has(item.item_id)
    byId.set(item.item_id, item)
    ids.set(nameKey(item.market_hash_name, item.phase), item.item_id)
    sorted = undefined
    if (!isNew) return
    const others = byName.get(item.market_hash_name) ?? []
    byName.set(item.market_hash_name, item.phase === null ? [item.item_id, ...others] : [...others, item.item_id])
  }
  const stop = new AbortController()
  const following = await follow(kafka, 'catalog', {
    from: 'start',
    signal: stop.signal,
    waitMs: 1_000,
    async onRecords(records) {
      for (const record of records) {
        if (record.value === null) continue
        const { event, value } = await decodeLearning(kafka.codec, record.value)
        if (event === 'CatalogVersionPublished') version = value.version
        else keep(shared(fromEvent(value)))
      }
    },
  })
  following.closed.catch(error => kafka.log.error({ error }, 'the catalog can no longer be followed'))
  await following.caughtUp
  if (version === '') {
    stop.abort()
    throw new Error('the log holds no catalog: run the set-up step (`marketlog run` does) first')
  }
  return {
    items: () => {
      sorted ??= [...byId.values()].sort((a, b) => a.item_id - b.item_id)
      return sorted
    },
    byId: itemId => byId.get(itemId),
    idOf: (name, phase) => ids.get(nameKey(name, phase)),
    idsOfName: name => byName.get(name) ?? EMPTY,
    version: () => version,
    async close() {
      stop.abort()
      await following.closed.catch(() => undefined)
    },
  }
}

/** Columns that hold few different texts. */
const REPEATING = [
  ...['item_type', 'item_subtype', 'weapon_type', 'base_name', 'skin_name', 'wear_name', 'def_index'],
  ...['collection', 'collection_image', 'release_date', 'rarity_name', 'rarity_color', 'style_name', 'phase'],
] as const

/** Gives items the texts and lists of others that are the same: as decoded, thirty thousand of them have each its own. */
function openSharing(): (item: CatalogItem) => CatalogItem {
  const texts = new Map<string, string>()
  const lists = new Map<string, readonly string[]>()
  const text = (one: string): string => {
    const found = texts.get(one)
    if (found !== undefined) return found
    texts.set(one, one)
    return one
  }
  const list = (some: readonly string[]): readonly string[] => {
    const key = some.join('\n')
    const found = lists.get(key) ?? some.map(text)
    lists.set(key, found)
    return found
  }
  return item => {
    const shared: Record<string, unknown> = {
      ...item,
      crates: list(item.crates),
      crates_images: list(item.crates_images),
    }
    for (const column of REPEATING) {
      const value = shared[column]
      if (typeof value === 'string') shared[column] = text(value)
    }
    return shared as unknown as CatalogItem
  }
}

/** An event holds `supply` always, the specification's item only when it is available. */
function fromEvent(value: CatalogItem & { supply?: number | null }): CatalogItem {
  const { supply, ...item } = value
  return typeof supply === 'number' ? { ...item, supply } : item
}
