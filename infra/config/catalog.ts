/**
 * Reads the built catalog: the part from the source and the part from observed names. Built by infra/config/build/catalog.ts.
 *
 * A part is an array of items as JSON, zstd. Invariant: all items come in order of their ids, each id once.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { zstdDecompressSync } from 'node:zlib'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'

/** The built catalog: the part from the source, the part from observed names, and the number of its revision. */
export const CATALOG_FILES = {
  items: new URL('./catalog/items.json.zst', import.meta.url),
  observed: new URL('./catalog/observed.json.zst', import.meta.url),
  revision: new URL('./catalog/revision.txt', import.meta.url),
}

/** Loads all items by id; takes about 0.3 s. Throws when a file is missing or damaged. */
export function loadCatalog(): CatalogItem[] {
  return [...loadPart('items'), ...loadPart('observed')].sort((a, b) => a.item_id - b.item_id)
}

export const loadPart = (part: 'items' | 'observed'): CatalogItem[] =>
  JSON.parse(zstdDecompressSync(readFileSync(CATALOG_FILES[part])).toString())

/** Grows whenever a build changes the content. */
export function catalogRevision(): number {
  return Number(readFileSync(CATALOG_FILES.revision, 'utf8'))
}

/** The catalog's revision and content, as `REVISION-HASH` (first 16 hex digits of a SHA-256). */
export function catalogVersion(): string {
  const hash = createHash('sha256')
  for (const file of [CATALOG_FILES.items, CATALOG_FILES.observed]) hash.update(readFileSync(file))
  return `${catalogRevision()}-${hash.digest('hex').slice(0, 16)}`
}

/** The revision that a version names; a version without one is older than all that have one. */
export function revisionOf(version: string): number {
  return Number(/^(\d+)-/.exec(version)?.[1] ?? 0)
}

export type ItemIdentity = Pick<CatalogItem, 'item_id' | 'market_hash_name' | 'phase'>

/**
 * Why a catalog may not follow what was published; undefined when it may. An id names one pair of name and phase for ever: in the
 * tables and in portfolios it alone says what a row is about.
 */
export function identityFault(published: readonly ItemIdentity[], items: readonly ItemIdentity[]): string | undefined {
  const textOf = ({ market_hash_name: name, phase }: ItemIdentity): string =>
    phase === null ? JSON.stringify(name) : `${JSON.stringify(name)} (${phase})`
  const names = new Map(published.map(item => [item.item_id, textOf(item)]))
  const ids = new Map<string, number>()
  for (const item of items) {
    const [id, name] = [item.item_id, textOf(item)]
    const before = names.get(id) ?? name
    if (before !== name) return `item ${id} was published as ${before} and would become ${name}`
    const other = ids.get(name) ?? id
    if (other !== id) return `items ${other} and ${id} are both ${name}`
    ids.set(name, id)
  }
  return undefined
}
