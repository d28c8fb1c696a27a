/**
 * GET /items, /items/metadata and /images: parameters and answers of the catalog.
 *
 * Rules: DECISIONS.md, "Catalog". Invariant: null is what the catalog does not know;
 * `supply` is left out when unknown.
 */
import { z } from 'zod'
import { boolean, integer, phase, repeated, text } from './query-values.ts'
import { offsetPagination } from './reply-values.ts'

/** Parameters of GET /items; without `limit` all matches come in one answer. */
export const itemsQuery = z.object({
  q: text().optional(),
  item_id: integer({ min: 1 }).optional(),
  market_hash_name: text().optional(),
  item_type: text().optional(),
  item_subtype: text().optional(),
  weapon_type: text().optional(),
  base_name: text().optional(),
  skin_name: text().optional(),
  wear_name: text().optional(),
  phase: phase().optional(),
  collection: text().optional(),
  crates: repeated(text()).optional(),
  rarity_name: text().optional(),
  rarity_color: text().optional(),
  style_name: text().optional(),
  is_stattrak: boolean().optional(),
  is_souvenir: boolean().optional(),
  limit: integer({ min: 1, max: 1000 }).optional(),
  offset: integer({ min: 0 }).default(0),
})

/** Parsed parameters of GET /items. */
export type ItemsQuery = z.infer<typeof itemsQuery>

const known = z.string().nullable()

/** One item of the catalog. */
export const catalogEntry = z.strictObject({
  item_id: z.int(),
  market_hash_name: z.string(),
  phase: known,
  item_type: known,
  item_subtype: known,
  weapon_type: known,
  base_name: known,
  skin_name: known,
  wear_name: known,
  def_index: known,
  paint_index: z.int().nullable(),
  collection: known,
  collection_image: z.url().nullable(),
  crates: z.array(z.string()),
  crates_images: z.array(z.string()),
  release_date: z.iso.date().nullable(),
  rarity_name: known,
  rarity_color: known,
  style_name: known,
  is_stattrak: z.boolean(),
  is_souvenir: z.boolean(),
  min_float: z.number().nullable(),
  max_float: z.number().nullable(),
  image_url: z.url().nullable(),
  supply: z.int().optional(),
})

/** Answer of GET /items. */
export const itemsReply = z.strictObject({
  items: z.array(catalogEntry),
  pagination: offsetPagination.extend({ next_cursor: z.null() }),
})

/** The fields whose values GET /items/metadata lists. */
export const ENUMERATED_FIELDS = [
  'item_type',
  'item_subtype',
  'weapon_type',
  'wear_name',
  'phase',
  'collection',
  'rarity_name',
  'rarity_color',
  'style_name',
] as const

/** A field whose values GET /items/metadata lists. */
export type EnumeratedField = (typeof ENUMERATED_FIELDS)[number]

/** Answer of GET /items/metadata. */
export const itemsMetadataReply = z.strictObject({
  catalog: z.strictObject({ total_items: z.int() }),
  filters: z.strictObject(
    Object.fromEntries(ENUMERATED_FIELDS.map(field => [field, z.array(z.string())])) as Record<
      EnumeratedField,
      z.ZodArray<z.ZodString>
    >,
  ),
})

/** Parameters of GET /images. */
export const imagesQuery = z.object({ format: z.enum(['png', 'webp']).default('png') })

/** Parsed parameters of GET /images. */
export type ImagesQuery = z.infer<typeof imagesQuery>

/** Answer of GET /images: display name → image URLs. */
export const imagesReply = z.record(z.string(), z.array(z.url()).min(1))
