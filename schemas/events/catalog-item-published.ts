/**
 * The catalog as events on catalog.items (compacted): one record per item, then the version.
 *
 * Keys: the item id, and `version`. Invariant: `version` is written last, so a reader that has read the version it
 * expects has every item of it.
 */
import type { CatalogItem } from '../values/catalog-item.ts'
import { defineEvent, optional } from './event.ts'

/** One tradable item of the catalog. */
export const catalogItemPublished = defineEvent<Omit<CatalogItem, 'supply'> & { supply: number | null }>(
  'CatalogItemPublished',
  1,
  'One tradable item of the catalog.',
  {
    item_id: 'int',
    market_hash_name: 'string',
    phase: optional('string'),
    item_type: optional('string'),
    item_subtype: optional('string'),
    weapon_type: optional('string'),
    base_name: optional('string'),
    skin_name: optional('string'),
    wear_name: optional('string'),
    def_index: optional('string'),
    paint_index: optional('int'),
    collection: optional('string'),
    collection_image: optional('string'),
    crates: { type: 'array', items: 'string' },
    crates_images: { type: 'array', items: 'string' },
    release_date: optional('string'),
    rarity_name: optional('string'),
    rarity_color: optional('string'),
    style_name: optional('string'),
    is_stattrak: 'boolean',
    is_souvenir: 'boolean',
    min_float: optional('double'),
    max_float: optional('double'),
    image_url: optional('string'),
    supply: optional('long'),
  },
)

/** All items of a catalog version have been published before this record. */
interface CatalogVersionPublished {
  version: string
  items: number
}

/** All items of a catalog version have been published before this record. */
export const catalogVersionPublished = defineEvent<CatalogVersionPublished>(
  'CatalogVersionPublished',
  1,
  'All items of a catalog version have been published before this record.',
  { version: 'string', items: 'int' },
)
