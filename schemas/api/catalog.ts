/**
 * The catalog: GET /items, GET /items/metadata and GET /images.
 *
 * Rules: DECISIONS.md, "Catalog". A member that the catalog does not know is null; `supply` is left out when unknown,
 * `is_provisional` where the built catalog has the item.
 */
import { z } from 'zod'
import { boolean, integer, itemSelector, NAME_NOTE, pageOffset, repeated, text } from './query-values.ts'
import { itemMembers, offsetPages } from './reply-values.ts'

const filter = (description: string, example: string) => text().optional().meta({ description, example })

/** Parameters of GET /items; without `limit` one reply lists all matches. */
export const itemsQuery = z.object({
  q: filter('Part of a name, in any case. When no name contains it, its words are matched in any order.', 'redline'),
  item_id: integer({ min: 1 }).optional().meta({ description: 'Catalog id of one item.', example: 4940 }),
  market_hash_name: filter(`Name of an item. ${NAME_NOTE}`, 'AK-47 | Redline (Field-Tested)'),
  item_type: filter('Class of the item, such as Weapon, Sticker or Crate; in any case.', 'Weapon'),
  item_subtype: filter('Family within the class, such as Rifles or Autograph; in any case.', 'Rifles'),
  weapon_type: filter('Kind of weapon, such as Assault Rifle or Knife; in any case.', 'Assault Rifle'),
  base_name: filter('Model, such as AK-47 or Karambit; in any case.', 'AK-47'),
  skin_name: filter('Name of the finish, in any case.', 'Redline'),
  wear_name: filter('Name of the wear.', 'Field-Tested'),
  phase: itemSelector.phase,
  collection: filter('Collection, in any case.', 'The Phoenix Collection'),
  crates: repeated(text())
    .optional()
    .meta({
      description: 'Crates that hold the item; repeated once per crate.',
      example: ['Operation Phoenix Weapon Case'],
    }),
  rarity_name: filter('Name of the rarity.', 'Classified'),
  rarity_color: filter('Colour of the rarity: six hex digits, or a name of the colour.', 'd32ce6'),
  style_name: filter('Name of the finish style.', 'Custom Paint Job'),
  is_stattrak: boolean().optional().meta({ description: 'Whether the item counts kills.', example: false }),
  is_souvenir: boolean().optional().meta({ description: 'Whether the item is a souvenir.', example: false }),
  limit: integer({ min: 1, max: 1000 })
    .optional()
    .meta({ description: 'Entries of a page; all matches when left out.', example: 50 }),
  offset: pageOffset(),
})

export type ItemsQuery = z.infer<typeof itemsQuery>

const word = (example: string) => z.string().nullable().meta({ example })

const catalogEntry = z
  .strictObject({
    ...itemMembers,
    item_type: word('Weapon'),
    item_subtype: word('Rifles'),
    weapon_type: word('Assault Rifle'),
    base_name: word('AK-47'),
    skin_name: word('Redline'),
    wear_name: word('Field-Tested'),
    def_index: word('7'),
    paint_index: z.int().nullable().meta({ example: 282 }),
    collection: word('The Phoenix Collection'),
    collection_image: z.url().nullable(),
    crates: z.array(z.string()).meta({ example: ['Operation Phoenix Weapon Case'] }),
    crates_images: z.array(z.string()).meta({ example: ['https://images.example.com/phoenix.png'] }),
    release_date: z.iso.date().nullable().meta({ example: '2014-02-20' }),
    rarity_name: word('Classified'),
    rarity_color: word('d32ce6'),
    style_name: word('Custom Paint Job'),
    is_stattrak: z.boolean(),
    is_souvenir: z.boolean(),
    min_float: z.number().nullable().meta({ example: 0.1 }),
    max_float: z.number().nullable().meta({ example: 0.7 }),
    image_url: z.url().nullable().meta({ example: 'https://images.example.com/redline.png' }),
    supply: z.int().optional(),
    is_provisional: z.literal(true).optional(),
  })
  .meta({ id: 'CatalogItem' })

export const itemsReply = z.strictObject({
  items: z.array(catalogEntry),
  pagination: offsetPages(100)
    .extend({ next_cursor: z.null() })
    .meta({ example: { limit: 100, offset: 0, total: 1, has_next: false, has_prev: false, next_cursor: null } }),
})

/** The fields whose values GET /items/metadata lists, each with one of them. */
const ENUMERATED = {
  item_type: 'Weapon',
  item_subtype: 'Rifles',
  weapon_type: 'Assault Rifle',
  wear_name: 'Field-Tested',
  phase: 'Ruby',
  collection: 'The Phoenix Collection',
  rarity_name: 'Classified',
  rarity_color: 'd32ce6',
  style_name: 'Custom Paint Job',
} as const

export const ENUMERATED_FIELDS = Object.keys(ENUMERATED) as (keyof typeof ENUMERATED)[]

export const itemsMetadataReply = z.strictObject({
  catalog: z.strictObject({ total_items: z.int().meta({ example: 30_000 }) }),
  filters: z.strictObject(
    Object.fromEntries(
      Object.entries(ENUMERATED).map(([field, value]) => [field, z.array(z.string()).meta({ example: [value] })]),
    ),
  ),
})

export const imagesQuery = z.object({
  format: z.enum(['png', 'webp']).default('png').meta({ description: 'Suffix of the image URLs.', example: 'png' }),
})

/** Answer of GET /images: display name → image URLs. */
export const imagesReply = z
  .record(z.string(), z.array(z.url()).min(1))
  .meta({ example: { 'AK-47 | Redline': ['https://images.example.com/redline.png'] } })
