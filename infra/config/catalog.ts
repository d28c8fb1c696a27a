/**
 * Reads the built catalog: the part from the source and the part from observed names. Built by infra/config/build/catalog.ts.
 *
 * A list of items is stored in columns, gzip JSON: per field its distinct values and, per item, the position of its value; ids as
 * differences, crates as one table of names and images and the distinct sets in use. Invariant: unpacking what was packed gives
 * the same items, and the same items give the same bytes; all items come in order of their ids, each id once.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { gunzipSync, gzipSync } from 'node:zlib'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'

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

const FORM = 'marketlog-catalog-1'

const FIELDS = [
  'market_hash_name',
  'phase',
  'item_type',
  'item_subtype',
  'weapon_type',
  'base_name',
  'skin_name',
  'wear_name',
  'def_index',
  'paint_index',
  'collection',
  'collection_image',
  'release_date',
  'rarity_name',
  'rarity_color',
  'style_name',
  'is_stattrak',
  'is_souvenir',
  'min_float',
  'max_float',
  'image_url',
  'supply',
] as const satisfies (keyof CatalogItem)[]

type Field = (typeof FIELDS)[number]
type Value = string | number | boolean | null

interface Column {
  values: Value[]
  at: number[]
}

interface Packed {
  form: string
  count: number
  id_steps: number[]
  columns: Record<Field, Column>
  crates: { name: string; image: string }[]
  crate_sets: number[][]
  crates_at: number[]
}

/** Packs items, which are in order of their ids. */
export function packItems(items: readonly CatalogItem[]): Buffer {
  const crates = new Dictionary<{ name: string; image: string }>()
  const sets = new Dictionary<number[]>()
  const cratesAt = items.map(item => {
    const set = item.crates.map((name, i) => crates.indexOf({ name, image: item.crates_images[i] ?? '' }))
    return sets.indexOf(set)
  })
  const packed: Packed = {
    form: FORM,
    count: items.length,
    id_steps: items.map((item, i) => item.item_id - (items[i - 1]?.item_id ?? 0)),
    columns: Object.fromEntries(FIELDS.map(field => [field, column(items, field)])) as Record<Field, Column>,
    crates: crates.values,
    crate_sets: sets.values,
    crates_at: cratesAt,
  }
  return gzipSync(JSON.stringify(packed), { level: 9 })
}

/** Unpacks what {@link packItems} gave; throws when the bytes are something else. */
export function unpackItems(bytes: Buffer): CatalogItem[] {
  const packed = JSON.parse(gunzipSync(bytes).toString()) as Packed
  if (packed.form !== FORM) throw new Error(`not a ${FORM} file: run \`npm run catalog:build\``)
  const sets = packed.crate_sets.map(set => ({
    names: set.map(i => packed.crates[i]?.name ?? ''),
    images: set.map(i => packed.crates[i]?.image ?? ''),
  }))
  const items: CatalogItem[] = new Array(packed.count)
  let id = 0
  for (let row = 0; row < packed.count; row++) {
    id += packed.id_steps[row] ?? 0
    items[row] = unpackRow(packed, row, id, sets[packed.crates_at[row] ?? -1] ?? { names: [], images: [] })
  }
  return items
}

function unpackRow(
  packed: Packed,
  row: number,
  id: number,
  crates: { names: string[]; images: string[] },
): CatalogItem {
  const of = <F extends Field>(field: F): CatalogItem[F] => {
    const { values, at } = packed.columns[field]
    return values[at[row] ?? -1] as CatalogItem[F]
  }
  const item: CatalogItem = {
    item_id: id,
    market_hash_name: of('market_hash_name'),
    phase: of('phase'),
    item_type: of('item_type'),
    item_subtype: of('item_subtype'),
    weapon_type: of('weapon_type'),
    base_name: of('base_name'),
    skin_name: of('skin_name'),
    wear_name: of('wear_name'),
    def_index: of('def_index'),
    paint_index: of('paint_index'),
    collection: of('collection'),
    collection_image: of('collection_image'),
    crates: crates.names,
    crates_images: crates.images,
    release_date: of('release_date'),
    rarity_name: of('rarity_name'),
    rarity_color: of('rarity_color'),
    style_name: of('style_name'),
    is_stattrak: of('is_stattrak'),
    is_souvenir: of('is_souvenir'),
    min_float: of('min_float'),
    max_float: of('max_float'),
    image_url: of('image_url'),
  }
  const supply = of('supply')
  if (supply !== null && supply !== undefined) item.supply = supply
  return item
}

function column(items: readonly CatalogItem[], field: Field): Column {
  const dictionary = new Dictionary<Value>()
  const at = items.map(item => dictionary.indexOf(item[field] ?? null))
  return { values: dictionary.values, at }
}

/** Distinct values in order of first appearance; needed twice with different shapes, hence a class. */
class Dictionary<T> {
  readonly values: T[] = []
  readonly #index = new Map<string, number>()

  indexOf(value: T): number {
    const key = JSON.stringify(value)
    const known = this.#index.get(key)
    if (known !== undefined) return known
    this.#index.set(key, this.values.length)
    this.values.push(value)
    return this.values.length - 1
  }
}
