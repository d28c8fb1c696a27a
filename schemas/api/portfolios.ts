/** Portfolios, their entries and their files. Rules: DECISIONS.md, "Portfolios and inventories". */
import { z } from 'zod'
import { validationErrorReply } from './error.ts'
import { boolean, hasItem, integer, list, NAME_NOTE, needsItem, optional, phase, text, uuid } from './query-values.ts'
import { instant, itemMembers } from './reply-values.ts'

const QUANTITY_MAX = 1_000_000

const PORTFOLIO_ID = '7d9f3c52-64a8-4a0a-9d8e-0b6f6f3f2a11'
const ENTRY_ID = '1c3ff1a2-9f0e-4a64-8a77-5a2f9f6b0c31'

export const portfolioParams = z.object({
  id: uuid().meta({ description: 'Id of the portfolio.', example: PORTFOLIO_ID }),
})

export const entryParams = portfolioParams.extend({
  entry_id: uuid().meta({ description: 'Id of the entry, not the `item_id`.', example: ENTRY_ID }),
})

export const portfolioBody = z.strictObject({
  name: text(100).meta({ description: 'Name, 1 to 100 characters.', example: 'Long term' }),
})

export const portfolioReply = z.strictObject({
  id: z.uuid().meta({ example: PORTFOLIO_ID }),
  name: z.string().meta({ example: 'Long term' }),
  item_count: z.int().min(0).meta({ example: 1 }),
  created_at: instant.meta({ example: '2026-03-03T21:41:00.000Z' }),
  updated_at: instant.meta({ example: '2026-03-03T21:44:10.000Z' }),
})

export const portfoliosReply = z.strictObject({ data: z.array(portfolioReply) })

export const quantity = z.int().min(1).max(QUANTITY_MAX)

export const QUANTITY_NOTE = { description: 'Units, 1 to 1,000,000.', example: 2 }

/** Body members that select an item; one of the first two is required. */
export const itemChoice = {
  item_id: optional(z.int().min(1)).meta({
    description: 'Catalog id of the item. Takes precedence over `market_hash_name` and `phase`.',
    example: 4940,
  }),
  market_hash_name: optional(text()).meta({
    description: `Name of the item. ${NAME_NOTE}`,
    example: 'AK-47 | Redline (Field-Tested)',
  }),
  phase: optional(phase()).meta({ description: 'Phase of a phased finish.', example: 'Ruby' }),
}

export const entryBody = z
  .strictObject({ ...itemChoice, quantity: quantity.meta(QUANTITY_NOTE) })
  .refine(hasItem, needsItem)

const sticker = z.strictObject({ name: z.string(), slot: z.int(), wear: z.number().nullable() }).meta({ id: 'Sticker' })
const charm = z.strictObject({ name: z.string(), pattern_id: z.int().nullable() }).meta({ id: 'Charm' })

/** Properties of one asset; null where the platform does not give them. */
export const assetMembers = {
  float_value: z.number().nullable().meta({ example: 0.2113 }),
  paint_seed: z.int().nullable().meta({ example: 661 }),
  inspect_link: z.string().nullable().meta({ example: 'game://inspect/6f04ca0c447c5ddc' }),
  name_tag: z.string().nullable(),
  stickers: z
    .array(sticker)
    .nullable()
    .meta({ example: [{ name: 'Crown (Foil)', slot: 2, wear: null }] }),
  charms: z.array(charm).nullable(),
}

export const entryReply = z.strictObject({
  id: z.uuid().meta({ example: ENTRY_ID }),
  ...itemMembers,
  quantity: z.int().min(1).meta({ example: 1 }),
  source: z.enum(['gamestore', 'manual', 'csv']),
  gamestore_assetid: z.string().nullable().meta({ example: '31204567890' }),
  ...assetMembers,
  created_at: instant.meta({ example: '2026-03-03T21:44:10.000Z' }),
})

export const entriesReply = z.array(entryReply)

export const importBody = z.strictObject({
  asset_ids: optional(list(text(30), { min: 1, max: 10_000 })).meta({
    description: 'Assets to import; the whole inventory when left out.',
    example: ['31204567890'],
  }),
})

export const importReply = z.strictObject({
  imported: z.int().min(0).meta({ example: 41 }),
  skipped: z.int().min(0).meta({ example: 2 }),
  unresolved: z.array(z.string()).meta({
    description:
      'Assets that match no catalog item, by name, and requested ones that the inventory lacks, by asset id.',
    example: ['2021 Service Medal'],
  }),
})

/** Members of a reply to a CSV import, whether it was stored or refused. */
export const csvMembers = z.strictObject({
  imported: z.int().min(0).meta({ example: 210 }),
  skipped: z.int().min(0).meta({ example: 1 }),
  unresolved: z.array(z.string()).meta({ description: 'Names and ids that no catalog item has.', example: [] }),
  errors: z.array(z.strictObject({ row: z.int().min(1), message: z.string() })).meta({ example: [] }),
  price_unit: z.literal('minor').describe('Unit of prices as they are stored: hundredths of the currency.'),
})

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
