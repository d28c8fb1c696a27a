/** The filters of GET /items as one predicate. Pure. Rules: DECISIONS.md, "Catalog". */
import type { CatalogReader } from '#infra/runtime/role.ts'
import type { ItemsQuery } from '#schemas/api/catalog.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { plainName } from '#schemas/values/item-name.ts'

type Predicate = (item: CatalogItem, at: number) => boolean

interface FilteredCatalog extends Pick<CatalogReader, 'idsOfName'> {
  /** The name of each item as {@link searchText} has it. */
  searchTexts: readonly string[]
}

/** The usual names of the rarity colours, by the colour that the catalog holds. */
const COLOUR_NAMES: Record<string, readonly string[]> = {
  ded6cc: ['white', 'beige', 'off-white'],
  b0c3d9: ['gray', 'grey', 'light gray', 'light grey'],
  '5e98d9': ['light blue', 'sky blue'],
  '4b69ff': ['blue'],
  '8847ff': ['purple'],
  d32ce6: ['pink', 'magenta'],
  eb4b4b: ['red'],
  e4ae39: ['gold', 'yellow', 'orange'],
}

const EXACT = ['item_id', 'wear_name', 'phase', 'rarity_name', 'style_name', 'is_stattrak', 'is_souvenir'] as const

/** Compared without regard to case. */
const CASELESS = ['item_type', 'item_subtype', 'weapon_type', 'collection'] as const

/** Parts of names, compared in any spelling as well. */
const NAME_PARTS = ['base_name', 'skin_name'] as const

/** A name, or a part of one, as it is searched: in its plain form and lower case. */
export const searchText = (name: string): string => plainName(name).toLowerCase()

/** Whether an item of a catalog fits all filters of a query; undefined when there are none. */
export function itemPredicate(query: ItemsQuery, catalog: FilteredCatalog): Predicate | undefined {
  const tests: Predicate[] = []
  for (const field of EXACT) {
    const value = query[field]
    if (value !== undefined) tests.push(item => item[field] === value)
  }
  for (const field of CASELESS) {
    const value = query[field]?.toLowerCase()
    if (value !== undefined) tests.push(item => item[field]?.toLowerCase() === value)
  }
  for (const field of NAME_PARTS) {
    const value = query[field] === undefined ? undefined : searchText(query[field])
    if (value !== undefined) tests.push(({ [field]: part }) => part !== null && searchText(part) === value)
  }
  const { market_hash_name: name, crates, rarity_color: colour } = query
  if (name !== undefined) {
    const ids = catalog.idsOfName(name)
    tests.push(item => ids.includes(item.item_id))
  }
  const q = searchText(query.q ?? '')
  if (q !== '') tests.push(matches(q, catalog.searchTexts))
  if (crates !== undefined) {
    const names = new Set(crates.flatMap(crate => [crate, plainName(crate)]))
    tests.push(item => item.crates.some(crate => names.has(crate)))
  }
  if (colour !== undefined) tests.push(hasColour(colour))
  return tests.length === 0 ? undefined : (item, at) => tests.every(test => test(item, at))
}

/** Items whose names contain a text; if none does, items whose names contain all of its words, each looked for once. */
function matches(text: string, names: readonly string[]): Predicate {
  if (names.some(name => name.includes(text))) return (_, at) => names[at]?.includes(text) === true
  const words = [...new Set(text.split(' '))]
  return (_, at) => words.every(word => names[at]?.includes(word))
}

/** Takes `#4b69ff`, `4b69ff` in either case, or a name of the colour. */
function hasColour(text: string): Predicate {
  const name = text.toLowerCase()
  const hex = name.replace(/^#/, '')
  return ({ rarity_color: colour }) =>
    colour !== null && (colour === hex || COLOUR_NAMES[colour]?.includes(name) === true)
}
