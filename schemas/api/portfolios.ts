/**
 * Portfolios, their entries, and their files: creation, import and export. Rules: DECISIONS.md, "Portfolios and
 * inventories".
 */
import { z } from 'zod'
import { validationErrorReply } from './error.ts'
import { boolean, integer, list, NAME_NOTE, optional, phase, text, uuid, violates } from './query-values.ts'
import { exampleItem, instant, itemMembers } from './reply-values.ts'

/** Units that one transaction or entry may hold. */
const QUANTITY_MAX = 1_000_000

const examplePortfolio = {
  id: '7d9f3c52-64a8-4a0a-9d8e-0b6f6f3f2a11',
  name: 'Long term',
  item_count: 1,
  created_at: '2026-03-03T21:41:00.000Z',
  updated_at: '2026-03-03T21:44:10.000Z',
}
const EXAMPLE_ENTRY_ID = '1c3ff1a2-9f0e-4a64-8a77-5a2f9f6b0c31'

export const portfolioParams = z.object({
  id: uuid().meta({ description: 'Id of the portfolio.', example: examplePortfolio.id }),
})

export const entryParams = portfolioParams.extend({
  entry_id: uuid().meta({ description: 'Id of the entry, not the `item_id`.', example: EXAMPLE_ENTRY_ID }),
})

export const portfolioBody = z.strictObject({
  name: text(100).meta({ description: 'Name, 1 to 100 characters.', example: examplePortfolio.name }),
})

export const portfolioReply = z
  .strictObject({
    id: z.uuid(),
    name: z.string(),
    item_count: z.int().min(0),
    created_at: instant,
    updated_at: instant,
  })
  .meta({ example: examplePortfolio })

export const portfoliosReply = z
  .strictObject({ data: z.array(portfolioReply) })
  .meta({ example: { data: [examplePortfolio] } })

/** Units of an item in a body. */
export const quantity = z.int().min(1).max(QUANTITY_MAX)

export const QUANTITY_NOTE = { description: 'Units, 1 to 1,000,000.', example: 2 }

/** Body members that select an item; one of the first two is required. */
export const itemChoice = {
  item_id: optional(z.int().min(1)).meta({
    description: 'Catalog id of the item. Takes precedence over `market_hash_name` and `phase`.',
    example: exampleItem.item_id,
  }),
  market_hash_name: optional(text()).meta({
    description: `Name of the item. ${NAME_NOTE}`,
    example: exampleItem.market_hash_name,
  }),
  phase: optional(phase()).meta({ description: 'Phase of a phased finish.', example: 'Ruby' }),
}

/** Whether a body selects an item. */
export const choosesItem = (body: { item_id?: unknown; market_hash_name?: unknown }): boolean =>
  (body.item_id ?? body.market_hash_name) != null

/** The violation of a body that selects no item. */
export const ITEM_MISSING = {
  ...violates('missing', 'Field required: item_id or market_hash_name'),
  path: ['item_id'],
  when: () => true,
}

export const entryBody = z
  .strictObject({ ...itemChoice, quantity: quantity.meta(QUANTITY_NOTE) })
  .refine(choosesItem, ITEM_MISSING)

const sticker = z.strictObject({ name: z.string(), slot: z.int(), wear: z.number().nullable() }).meta({ id: 'Sticker' })
const charm = z.strictObject({ name: z.string(), pattern_id: z.int().nullable() }).meta({ id: 'Charm' })

/** Properties of one asset; null where the platform does not give them. */
export const assetMembers = {
  float_value: z.number().nullable(),
  paint_seed: z.int().nullable(),
  inspect_link: z.string().nullable(),
  name_tag: z.string().nullable(),
  stickers: z.array(sticker).nullable(),
  charms: z.array(charm).nullable(),
}

/** The same, as values. */
export type AssetMembers = z.infer<z.ZodObject<typeof assetMembers>>

/** The same in examples. */
export const exampleAsset: AssetMembers = {
  float_value: 0.2113,
  paint_seed: 661,
  inspect_link: 'game://inspect/6f04ca0c447c5ddc',
  name_tag: null,
  stickers: [{ name: 'Crown (Foil)', slot: 2, wear: null }],
  charms: null,
}

const exampleEntry = {
  id: EXAMPLE_ENTRY_ID,
  ...exampleItem,
  quantity: 1,
  source: 'gamestore',
  gamestore_assetid: '31204567890',
  ...exampleAsset,
  created_at: examplePortfolio.updated_at,
}

export const entryReply = z
  .strictObject({
    id: z.uuid(),
    ...itemMembers,
    quantity: z.int().min(1),
    source: z.enum(['gamestore', 'manual', 'csv']),
    gamestore_assetid: z.string().nullable(),
    ...assetMembers,
    created_at: instant,
  })
  .meta({ example: exampleEntry })

export const entriesReply = z.array(entryReply).meta({ example: [exampleEntry] })

export const importBody = z.strictObject({
  asset_ids: optional(list(text(30), { min: 1, max: 10_000 })).meta({
    description: 'Assets to import; the whole inventory when left out.',
    example: [exampleEntry.gamestore_assetid],
  }),
})

export const importReply = z
  .strictObject({
    imported: z.int().min(0),
    skipped: z.int().min(0),
    unresolved: z
      .array(z.string())
      .describe(
        'Assets that match no catalog item, by name, and requested ones that the inventory lacks, by asset id.',
      ),
  })
  .meta({ example: { imported: 41, skipped: 2, unresolved: ['2021 Service Medal'] } })

/** Members of a reply to a CSV import, whether it was stored or refused. */
export const csvMembers = z
  .strictObject({
    imported: z.int().min(0),
    skipped: z.int().min(0),
    unresolved: z.array(z.string()).describe('Names and ids that no catalog item has.'),
    errors: z.array(z.strictObject({ row: z.int().min(1), message: z.string() })),
    price_unit: z.literal('minor').describe('Unit of prices as they are stored: hundredths of the currency.'),
  })
  .meta({ example: { imported: 210, skipped: 1, unresolved: [], errors: [], price_unit: 'minor' } })

/** The 422 of a CSV import. */
export const csvRefusal = z.strictObject({ ...validationErrorReply.shape, ...csvMembers.partial().shape })

export const exportQuery = z.object({
  type: z.enum(['transactions', 'items']).default('transactions').meta({
    description: 'What the file holds: `transactions`, or `items` for the holdings.',
    example: 'transactions',
  }),
  part: integer({ min: 1 }).optional().meta({
    description: 'Part of a ledger of more than 64 MB; needed for such a one alone.',
    example: 1,
  }),
  bom: boolean().default(false).meta({
    description: 'Whether the file begins with a byte order mark, by which spreadsheets know UTF-8.',
    example: false,
  }),
})

export const portfolioFile = z.string().meta({
  example:
    'date,type,market_hash_name,item_id,phase,quantity,price,currency,fee_amount,fee_percentage,marketplace,note\r\n2026-02-14,buy,AK-47 | Redline (Field-Tested),4940,,2,2710,USD,,2.5,provider_02,\r\n',
})
