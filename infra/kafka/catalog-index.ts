/**
 * The catalog as a fold of its records, one whole version after the other.
 *
 * Pure state: the version in force, and the items that came after it. Those count only once the record that completes
 * their version has come, all at once, and a version that was given out never changes: who holds one goes on with it.
 * Invariant: what a version answers derives from the last record of each item alone, as compaction leaves it. So an
 * item that was renamed has its new name and no longer the old one, and of two items with one name and phase the lower id has it.
 * A provisional item keeps its id and name: the item with its name, in any spelling, and phase, should the catalog come to have
 * it, answers under that id alone.
 */
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { nameKey, openItemNames, plainName } from '#schemas/values/item-name.ts'

export function openCatalogIndex() {
  let items: ReadonlyMap<number, CatalogItem> = new Map()
  const provisional = new Map<number, CatalogItem>()
  let published = ''
  let current = versionOf('', items)
  let coming = new Map<number, CatalogItem>()
  const begin = (version: string, added: ReadonlyMap<number, CatalogItem>): void => {
    published = version
    if (added.size > 0) items = new Map([...items, ...added])
    current =
      provisional.size === 0
        ? versionOf(version, items)
        : versionOf(`${version}.${provisional.size}`, withProvisional(items, provisional))
  }
  return {
    /** Keeps an item for the version that comes. */
    add: (item: CatalogItem): void => void coming.set(item.item_id, item),
    /** Begins a version: all items that were added are its own. */
    complete(version: string): void {
      begin(version, coming)
      coming = new Map()
    },
    /**
     * At the end of what the log held at first: items that only an unfinished version has count as well, since compaction
     * may have removed their record of the version before. A plus sign at the version's end says so.
     */
    adopt(): void {
      const unknown = new Map([...coming].filter(([id]) => !items.has(id)))
      if (unknown.size > 0) begin(`${published}+`, unknown)
    },
    /** Adds items that markets list and the catalog lacks, all at once; each counts one behind a dot at the version's end. */
    addProvisional(added: readonly CatalogItem[]): void {
      for (const item of added) provisional.set(item.item_id, item)
      if (added.length > 0) begin(published, NONE)
    },
    current: () => current,
  }
}

const NONE: ReadonlyMap<number, CatalogItem> = new Map()

function withProvisional(
  items: ReadonlyMap<number, CatalogItem>,
  provisional: ReadonlyMap<number, CatalogItem>,
): ReadonlyMap<number, CatalogItem> {
  const keyOf = ({ market_hash_name, phase }: CatalogItem): string => nameKey(plainName(market_hash_name), phase)
  const names = new Set(provisional.values().map(keyOf))
  const itemOfName = new Map<string, CatalogItem>()
  for (const item of items.values()) {
    const key = keyOf(item)
    const isPlain = key === nameKey(item.market_hash_name, item.phase)
    if (names.has(key) && (isPlain || !itemOfName.has(key))) itemOfName.set(key, item)
  }
  const all = new Map(items)
  for (const { item_id } of itemOfName.values()) all.delete(item_id)
  for (const [id, item] of provisional) {
    const built = itemOfName.get(keyOf(item))
    const { market_hash_name } = item
    all.set(id, built ? { ...built, item_id: id, market_hash_name } : { ...item, is_provisional: true })
  }
  return all
}

/** All items by ascending id, and by their names. */
function versionOf(version: string, byId: ReadonlyMap<number, CatalogItem>) {
  const items: readonly CatalogItem[] = [...byId.values()].sort((a, b) => a.item_id - b.item_id)
  return { version, items, byId: (itemId: number) => byId.get(itemId), ...openItemNames(items) }
}
