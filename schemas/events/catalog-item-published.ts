/**
 * The catalog as events on catalog.items (compacted): one record per item, then the version; and items that markets list and it
 * lacks on catalog.provisional (compacted).
 *
 * Keys: the item id, and `version`. Invariant: `version` is written last, so a reader that has read the version it
 * expects has every item of it. A provisional item is completed by the item of catalog.items that has its name and phase, and keeps
 * its own id.
 */
import type { CatalogItem } from '../values/catalog-item.ts'
import { defineEvent, type EventSchema, nullable } from './event.ts'

/** An event holds `supply` always, the specification's item only when it is available. */
export type CatalogItemPublished = Omit<CatalogItem, 'supply' | 'is_provisional'> & { supply: number | null }

export const catalogItemPublished = defineEvent('CatalogItemPublished', 1, 'One tradable item of the catalog.', {
  item_id: 'int',
  market_hash_name: 'string',
  phase: nullable('string'),
  item_type: nullable('string'),
  item_subtype: nullable('string'),
  weapon_type: nullable('string'),
  base_name: nullable('string'),
  skin_name: nullable('string'),
  wear_name: nullable('string'),
  def_index: nullable('string'),
  paint_index: nullable('int'),
  collection: nullable('string'),
  collection_image: nullable('string'),
  crates: { type: 'array', items: 'string' },
  crates_images: { type: 'array', items: 'string' },
  release_date: nullable('string'),
  rarity_name: nullable('string'),
  rarity_color: nullable('string'),
  style_name: nullable('string'),
  is_stattrak: 'boolean',
  is_souvenir: 'boolean',
  min_float: nullable('double'),
  max_float: nullable('double'),
  image_url: nullable('string'),
  supply: nullable('long'),
}) as EventSchema<CatalogItemPublished>

export const catalogVersionPublished = defineEvent(
  'CatalogVersionPublished',
  1,
  'All items of a catalog version have been published before this record.',
  { version: 'string', items: 'int' },
)
