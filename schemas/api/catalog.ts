/**
 * The catalog: GET /items, GET /items/metadata and GET /images.
 *
 * Rules: DECISIONS.md, "Catalog". A member that the catalog does not know is null; `supply` is left out when unknown,
 * `is_provisional` where the built catalog has the item.
 */
import { z } from 'zod'
import { boolean, integer, itemSelector, NAME_NOTE, pageOffset, repeated, text } from './query-values.ts'
import { exampleItem, examplePage, offsetPagination } from './reply-values.ts'

/** Parameters of GET /items; without `limit` one reply lists all matches. */
export const itemsQuery = z.object({
  q: text().optional().meta({
    description: 'Part of a name, in any case. When no name contains it, its words are matched in any order.',
    example: 'redline',
  }),
  item_id: integer({ min: 1 }).optional().meta({ description: 'Catalog id of one item.', example: 4940 }),
  market_hash_name: text()
    .optional()
    .meta({ description: `Name of an item. ${NAME_NOTE}`, example: exampleItem.market_hash_name }),
  item_type: text()
    .optional()
    .meta({ description: 'Class of the item, such as Weapon, Sticker or Crate; in any case.', example: 'Weapon' }),
  item_subtype: text()
    .optional()
    .meta({ description: 'Family within the class, such as Rifles or Autograph; in any case.', example: 'Rifles' }),
  weapon_type: text()
    .optional()
    .meta({ description: 'Kind of weapon, such as Assault Rifle or Knife; in any case.', example: 'Assault Rifle' }),
  base_name: text()
    .optional()
    .meta({ description: 'Model, such as AK-47 or Karambit; in any case.', example: 'AK-47' }),
  skin_name: text().optional().meta({ description: 'Name of the finish, in any case.', example: 'Redline' }),
  wear_name: text().optional().meta({ description: 'Name of the wear.', example: 'Field-Tested' }),
  phase: itemSelector.phase,
  collection: text().optional().meta({ description: 'Collection, in any case.', example: 'The Phoenix Collection' }),
  crates: repeated(text())
    .optional()
    .meta({
      description: 'Crates that hold the item; repeated once per crate.',
      example: ['Operation Phoenix Weapon Case'],
    }),
  rarity_name: text().optional().meta({ description: 'Name of the rarity.', example: 'Classified' }),
  rarity_color: text()
    .optional()
    .meta({ description: 'Colour of the rarity: six hex digits, or a name of the colour.', example: 'd32ce6' }),
  style_name: text().optional().meta({ description: 'Name of the finish style.', example: 'Custom Paint Job' }),
  is_stattrak: boolean().optional().meta({ description: 'Whether the item counts kills.', example: false }),
  is_souvenir: boolean().optional().meta({ description: 'Whether the item is a souvenir.', example: false }),
  limit: integer({ min: 1, max: 1000 })
    .optional()
    .meta({ description: 'Entries of a page; all matches when left out.', example: 50 }),
  offset: pageOffset(),
})

export type ItemsQuery = z.infer<typeof itemsQuery>

const known = z.string().nullable()

const catalogEntry = z
  .strictObject({
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
    is_provisional: z.literal(true).optional(),
  })
  .meta({ id: 'CatalogItem' })

export const itemsReply = z
  .strictObject({
    items: z.array(catalogEntry),
    pagination: offsetPagination.extend({ next_cursor: z.null() }),
  })
  .meta({
    example: {
      items: [
        {
          ...exampleItem,
          item_type: 'Weapon',
          item_subtype: 'Rifles',
          weapon_type: 'Assault Rifle',
          base_name: 'AK-47',
          skin_name: 'Redline',
          wear_name: 'Field-Tested',
          def_index: '7',
          paint_index: 282,
          collection: 'The Phoenix Collection',
          collection_image: null,
          crates: ['Operation Phoenix Weapon Case'],
          crates_images: ['https://images.example.com/phoenix.png'],
          release_date: '2014-02-20',
          rarity_name: 'Classified',
          rarity_color: 'd32ce6',
          style_name: 'Custom Paint Job',
          is_stattrak: false,
          is_souvenir: false,
          min_float: 0.1,
          max_float: 0.7,
          image_url: 'https://images.example.com/redline.png',
        },
      ],
      pagination: { ...examplePage(100), next_cursor: null },
    },
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
type EnumeratedField = (typeof ENUMERATED_FIELDS)[number]

export const itemsMetadataReply = z
  .strictObject({
    catalog: z.strictObject({ total_items: z.int() }),
    filters: z.strictObject(
      Object.fromEntries(ENUMERATED_FIELDS.map(field => [field, z.array(z.string())])) as Record<
        EnumeratedField,
        z.ZodArray<z.ZodString>
      >,
    ),
  })
  .meta({
    example: {
      catalog: { total_items: 30_000 },
      filters: {
        item_type: ['Weapon'],
        item_subtype: ['Rifles'],
        weapon_type: ['Assault Rifle'],
        wear_name: ['Field-Tested'],
        phase: ['Ruby'],
        collection: ['The Phoenix Collection'],
        rarity_name: ['Classified'],
        rarity_color: ['d32ce6'],
        style_name: ['Custom Paint Job'],
      },
    },
  })

export const imagesQuery = z.object({
  format: z.enum(['png', 'webp']).default('png').meta({ description: 'Suffix of the image URLs.', example: 'png' }),
})

/** Answer of GET /images: display name → image URLs. */
export const imagesReply = z
  .record(z.string(), z.array(z.url()).min(1))
  .meta({ example: { 'AK-47 | Redline': ['https://images.example.com/redline.png'] } })
