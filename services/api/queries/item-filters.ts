/**
 * The filters of GET /items as one predicate.
 *
 * Pure. Rules: DECISIONS.md, "Catalog".
 */
import type { ItemsQuery } from '#schemas/api/catalog.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'

type Predicate = (item: CatalogItem) => boolean

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

/** Compared as they are. */
const EXACT = [
  'item_id',
  'market_hash_name',
  'wear_name',
  'phase',
  'rarity_name',
  'style_name',
  'is_stattrak',
  'is_souvenir',
] as const

/** Compared without regard to case. */
const CASELESS = ['item_type', 'item_subtype', 'weapon_type', 'base_name', 'skin_name', 'collection'] as const

/** Whether an item of a catalog fits all filters of a query; undefined when there are none. */
export function itemPredicate(query: ItemsQuery, catalog: readonly CatalogItem[]): Predicate | undefined {
  const tests: Predicate[] = []
  for (const field of EXACT) {
    const wanted = query[field]
    if (wanted !== undefined) tests.push(item => item[field] === wanted)
  }
  for (const field of CASELESS) {
    const wanted = query[field]?.toLowerCase()
    if (wanted !== undefined) tests.push(item => item[field]?.toLowerCase() === wanted)
  }
  const { q, crates, rarity_color: colour } = query
  if (q !== undefined) tests.push(matches(q, catalog))
  if (crates !== undefined) tests.push(item => item.crates.some(crate => crates.includes(crate)))
  if (colour !== undefined) tests.push(hasColour(colour))
  return tests.length === 0 ? undefined : item => tests.every(test => test(item))
}

/** Items whose names contain a text; if none does, items whose names contain all of its words. */
function matches(text: string, catalog: readonly CatalogItem[]): Predicate {
  const hasText = contains(text)
  if (catalog.some(hasText)) return hasText
  const words = text.split(/\s+/).filter(word => word !== '')
  const tests = words.map(contains)
  return item => tests.length > 0 && tests.every(test => test(item))
}

function contains(text: string): Predicate {
  const wanted = text.toLowerCase()
  return item => item.market_hash_name.toLowerCase().includes(wanted)
}

/** Takes `#4b69ff`, `4b69ff` in either case, or a name of the colour. */
function hasColour(text: string): Predicate {
  const wanted = text.toLowerCase()
  const hex = wanted.replace(/^#/, '')
  return ({ rarity_color: colour }) =>
    colour !== null && (colour === hex || COLOUR_NAMES[colour]?.includes(wanted) === true)
}
