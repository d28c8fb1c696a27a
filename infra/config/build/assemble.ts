/**
 * Numbers the catalog: the pure heart of the build.
 *
 * Invariant: a (name, phase) pair that has a number keeps it for ever, and no pair ever leaves; what is new is appended behind
 * the highest number in use, first the source's in the source's order, then observed names sorted by code unit. A name that was
 * observed first and enters the source later moves to the source's part under its old number.
 */
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { nameKey, plainName } from '#schemas/values/item-name.ts'
import { type Draft, expandSource } from './expand.ts'
import { draftFromNames } from './observed.ts'
import type { SourceItem } from './source.ts'

/** The catalog's two parts: what the source knows, and names known from markets alone. */
export interface Catalog {
  items: CatalogItem[]
  observed: CatalogItem[]
}

export function assembleCatalog(
  source: readonly SourceItem[],
  observedNames: readonly string[],
  previous: Catalog,
): Catalog {
  const before = [...previous.items, ...previous.observed]
  const names = [...new Set([...observedNames, ...before.map(item => item.market_hash_name)])].sort()
  const expansion = expandSource(source, names)
  const drafts = new Map(expansion.drafts.map(draft => [keyOf(draft), draft]))
  const fromName = draftFromNames(expansion)

  const items: CatalogItem[] = []
  const observed: CatalogItem[] = []
  const wasObserved = new Set(previous.observed)
  for (const old of before) {
    const draft = drafts.get(keyOf(old))
    if (draft) items.push({ item_id: old.item_id, ...draft })
    else if (wasObserved.has(old)) observed.push(refreshed(old, fromName(old.market_hash_name)))
    else items.push(old)
  }

  const numbered = new Set(before.map(keyOf))
  let nextId = before.reduce((highest, item) => Math.max(highest, item.item_id), 0) + 1
  for (const [key, draft] of drafts) if (!numbered.has(key)) items.push({ item_id: nextId++, ...draft })
  const named = new Set([...items, ...observed].map(item => plainName(item.market_hash_name)))
  for (const name of names) {
    if (named.has(plainName(name))) continue
    named.add(plainName(name))
    observed.push({ item_id: nextId++, ...fromName(name) })
  }
  return { items: items.sort(byId), observed: observed.sort(byId) }
}

const keyOf = (item: Draft): string => nameKey(item.market_hash_name, item.phase)

const byId = (a: CatalogItem, b: CatalogItem): number => a.item_id - b.item_id

/**
 * A field that the name gives today wins; one that was known before and is not given now stays. The categories are replaced
 * together: none of an older vocabulary stays beside newer ones.
 */
function refreshed(old: CatalogItem, draft: Draft): CatalogItem {
  const known = Object.entries(draft).filter(
    ([, value]) => value !== null && !(Array.isArray(value) && value.length === 0),
  )
  const { item_type, item_subtype, weapon_type } = draft.item_type === null ? old : draft
  return { ...old, ...Object.fromEntries(known), item_type, item_subtype, weapon_type }
}
