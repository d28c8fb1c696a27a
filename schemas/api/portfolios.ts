/**
 * Portfolios: bodies, parameters and answers of portfolios, entries and transactions.
 *
 * Rules: DECISIONS.md, "Portfolios and inventories". Invariant: amounts are hundredths of the transaction's own currency; a member
 * that may be null in a change is set to null by it, any other null is left out.
 */
import { z } from 'zod'
import { parseInstant } from '../values/instant.ts'
import { currency, DEFAULT_CURRENCY, optional, phase, text, uuid, violates } from './query-values.ts'
import { amount, instant } from './reply-values.ts'

/** What the bodies of transactions depend on. */
export interface TransactionScope {
  isCurrency: (code: string) => boolean
  /** The last day that a transaction may have, YYYY-MM-DD. */
  latestDay: () => string
}

/** The first day that a transaction may have. */
export const EARLIEST_DAY = '2000-01-01'

/** Units that one transaction or entry may hold. */
export const QUANTITY_MAX = 1_000_000

/** Path of a portfolio. */
export const portfolioParams = z.object({ id: uuid() })

/** Path of an entry. */
export const entryParams = z.object({ id: uuid(), entry_id: uuid() })

/** Path of a transaction. */
export const transactionParams = z.object({ id: uuid(), tx_id: uuid() })

/** Body of POST /portfolio. */
export const portfolioBody = z.strictObject({ name: text(100) })

const record = z.strictObject({
  id: z.uuid(),
  name: z.string(),
  item_count: z.int().min(0),
  created_at: instant,
  updated_at: instant,
})

/** Answer of POST /portfolio. */
export const portfolioReply = record

/** Answer of GET /portfolio. */
export const portfoliosReply = z.strictObject({ data: z.array(record) })

const quantity = z.int().min(1).max(QUANTITY_MAX)

const itemMembers = {
  item_id: optional(z.int().min(1)),
  market_hash_name: optional(text()),
  phase: optional(phase()),
}

const namesItem = (body: { item_id?: unknown; market_hash_name?: unknown } | undefined): boolean =>
  body === undefined || (body.item_id ?? body.market_hash_name) != null

const ITEM_MISSING = {
  ...violates('missing', 'Field required: item_id or market_hash_name'),
  path: ['item_id'],
  when: () => true,
}

/** Body of POST /portfolio/:id/items. */
export const entryBody = z.strictObject({ ...itemMembers, quantity }).refine(namesItem, ITEM_MISSING)

const sticker = z.strictObject({ name: z.string(), slot: z.int(), wear: z.number().nullable() })
const charm = z.strictObject({ name: z.string(), pattern_id: z.int().nullable() })

/** What is known of one asset; null where the platform does not say. */
export const assetMembers = {
  float_value: z.number().nullable(),
  paint_seed: z.int().nullable(),
  inspect_link: z.string().nullable(),
  name_tag: z.string().nullable(),
  stickers: z.array(sticker).nullable(),
  charms: z.array(charm).nullable(),
}

const itemRecord = {
  item_id: z.int(),
  market_hash_name: z.string(),
  phase: z.string().nullable(),
}

/** An entry. */
export const entryReply = z.strictObject({
  id: z.uuid(),
  ...itemRecord,
  quantity: z.int().min(1),
  source: z.enum(['gamestore', 'manual', 'csv']),
  gamestore_assetid: z.string().nullable(),
  ...assetMembers,
  created_at: instant,
})

/** Answer of GET /portfolio/:id/items. */
export const entriesReply = z.array(entryReply)

/** A calendar day within what a ledger may hold. */
const ledgerDay = (latestDay: () => string) =>
  z
    .string()
    .refine(
      value => /^\d{4}-\d\d-\d\d$/.test(value) && parseInstant(value) !== undefined,
      violates('date_from_datetime_parsing', 'Input should be a day, YYYY-MM-DD'),
    )
    .superRefine((value, context) => {
      const [ge, le] = [EARLIEST_DAY, latestDay()]
      if (value > le)
        context.addIssue({ code: 'custom', ...violates('less_than_equal', `Input should be ${le} or earlier`, { le }) })
      if (value < ge) {
        context.addIssue({
          code: 'custom',
          ...violates('greater_than_equal', `Input should be ${ge} or later`, { ge }),
        })
      }
    })

const PERCENT_FORM = /^\d+(\.\d{1,6})?$/
const percentage = z
  .number()
  .min(0)
  .max(100)
  .refine(
    value => PERCENT_FORM.test(String(value)),
    violates('value_error', 'Input should have six decimal places at most'),
  )

const marketplace = text(64)
const note = text(1000)

/** Body of POST /portfolio/:id/transactions. */
export const transactionBody = ({ isCurrency, latestDay }: TransactionScope) =>
  z
    .strictObject({
      ...itemMembers,
      type: z.enum(['buy', 'sell']),
      quantity,
      price: z.int().min(0),
      date: ledgerDay(latestDay),
      fee_amount: optional(z.int().min(0)),
      fee_percentage: optional(percentage),
      marketplace: optional(marketplace),
      note: optional(note),
      currency: optional(currency(isCurrency)).transform(code => code ?? DEFAULT_CURRENCY),
    })
    .refine(namesItem, ITEM_MISSING)

/** A change of a currency has no default: what is left out stays. */
const otherCurrency = (isCurrency: (code: string) => boolean) =>
  z
    .string()
    .max(10)
    .refine(
      isCurrency,
      violates('enum', 'Input should be a currency code that GET /fx lists', {
        expected: 'a currency code that GET /fx lists',
      }),
    )

/** Body of PATCH /portfolio/:id/transactions/:tx_id. */
export const transactionPatch = ({ isCurrency, latestDay }: TransactionScope) =>
  z
    .strictObject({
      type: optional(z.enum(['buy', 'sell'])),
      quantity: optional(quantity),
      price: optional(z.int().min(0)),
      date: optional(ledgerDay(latestDay)),
      fee_amount: z.int().min(0).nullable().optional(),
      fee_percentage: percentage.nullable().optional(),
      marketplace: marketplace.nullable().optional(),
      note: note.nullable().optional(),
      currency: optional(otherCurrency(isCurrency)),
    })
    .refine(body => Object.values(body).some(value => value !== undefined), {
      ...violates('missing', 'Field required: at least one member to change'),
      path: [],
    })

/** A transaction. */
export const transactionReply = z.strictObject({
  id: z.uuid(),
  ...itemRecord,
  type: z.enum(['buy', 'sell']),
  quantity: z.int().min(1),
  price: amount,
  currency: z.string(),
  date: z.iso.date(),
  fee_amount: amount.nullable(),
  fee_percentage: z.number().nullable(),
  marketplace: z.string().nullable(),
  note: z.string().nullable(),
  created_at: instant,
  updated_at: instant,
})

/** Answer of GET /portfolio/:id/transactions. */
export const transactionsReply = z.array(transactionReply)

/** Body of POST /portfolio/:id/import. */
export const importBody = z.strictObject({
  asset_ids: optional(z.array(text(30)).min(1).max(10_000)),
})

/** Answer of POST /portfolio/:id/import. */
export const importReply = z.strictObject({
  imported: z.int().min(0),
  skipped: z.int().min(0),
  /** Assets that match no catalog item, by name, and asked ones that the inventory lacks, by asset id. */
  unresolved: z.array(z.string()),
})

/** Members of an answer to a CSV import, whether it was stored or refused. */
export const csvMembers = z.strictObject({
  imported: z.int().min(0),
  skipped: z.int().min(0),
  /** Names and ids that no catalog item has. */
  unresolved: z.array(z.string()),
  errors: z.array(z.strictObject({ row: z.int().min(1), message: z.string() })),
})

/** Query of GET /portfolio/:id/export. */
export const exportQuery = z.object({ type: z.enum(['transactions', 'items']).default('transactions') })
