/**
 * Reads the built catalog: the part from the source and the part from observed names.
 *
 * Reads the files of CATALOG_FILES, writes nothing. Invariant: items
 * come in order of their ids, each id once. Built by infra/config/catalog/build.ts; nothing here
 * needs the source package.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { unpackItems } from './catalog/packed.ts'

/** The built catalog: the part from the source, the part from observed names, and the number of its revision. */
export const CATALOG_FILES = {
  items: new URL('./catalog/items.json.gz', import.meta.url),
  observed: new URL('./catalog/observed.json.gz', import.meta.url),
  revision: new URL('./catalog/revision.txt', import.meta.url),
}

/** Loads all items by id; takes about 0.1 s. Throws when a file is missing or damaged. */
export function loadCatalog(): CatalogItem[] {
  const items = [
    ...unpackItems(readFileSync(CATALOG_FILES.items)),
    ...unpackItems(readFileSync(CATALOG_FILES.observed)),
  ]
  return items.sort((a, b) => a.item_id - b.item_id)
}

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
