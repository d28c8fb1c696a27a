/**
 * Reads the built catalog: the part from the source and the part from observed names.
 *
 * Reads infra/config/catalog/items.json.gz and observed.json.gz, writes nothing. Invariant: items
 * come in order of their ids, each id once. Built by infra/config/catalog/build.ts; nothing here
 * needs the source package.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { unpackItems } from './catalog/packed.ts'

/** The two files of the built catalog: from the source, and from observed names. */
export const CATALOG_FILES = {
  items: new URL('./catalog/items.json.gz', import.meta.url),
  observed: new URL('./catalog/observed.json.gz', import.meta.url),
}

/** Loads all items by id; takes about 0.1 s. Throws when a file is missing or damaged. */
export function loadCatalog(): CatalogItem[] {
  const items = [
    ...unpackItems(readFileSync(CATALOG_FILES.items)),
    ...unpackItems(readFileSync(CATALOG_FILES.observed)),
  ]
  return items.sort((a, b) => a.item_id - b.item_id)
}

/** Names the catalog's content: equal texts mean equal catalogs (first 16 hex digits of a SHA-256). */
export function catalogVersion(): string {
  const hash = createHash('sha256')
  for (const file of [CATALOG_FILES.items, CATALOG_FILES.observed]) hash.update(readFileSync(file))
  return hash.digest('hex').slice(0, 16)
}
