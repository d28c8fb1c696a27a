/**
 * Transactions of a portfolio's ledger. Rules: DECISIONS.md, "Portfolios and inventories".
 *
 * Amounts are hundredths of the transaction's own currency. In a change, null clears a member that may be null; null
 * for any other member means the same as leaving it out.
 */
import { z } from 'zod'
import { itemChoice, portfolioParams, QUANTITY_NOTE, quantity } from './portfolios.ts'
import {
  currencyCode,
  currencyMember,
  day,
  hasItem,
  namesChange,
  needsItem,
  optional,
  text,
  uuid,
  violates,
} from './query-values.ts'
import { amount, currencyName, instant, itemMembers } from './reply-values.ts'

interface TransactionScope {
  isCurrency: (code: string) => boolean
  /** The last day that a transaction may have, YYYY-MM-DD. */
  latestDay: () => string
}

const EARLIEST_DAY = '2000-01-01'

const TRANSACTION_ID = 'b0a4c4a2-22a7-4d0e-8a1c-7d4b5f1a9e02'

export const transactionParams = portfolioParams.extend({
  tx_id: uuid().meta({ description: 'Id of the transaction.', example: TRANSACTION_ID }),
})

const ledgerDay = (latestDay: () => string) =>
  day().superRefine((value, context) => {
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

const direction = z.enum(['buy', 'sell'])
const marketplace = text(64)
const note = text(1000)

const NOTES = {
  type: { description: 'Direction of the transaction.', example: 'buy' },
  price: { description: 'Price of one unit in hundredths of `currency`.', example: 2710 },
  date: {
    description: `Day of the transaction, YYYY-MM-DD, from ${EARLIEST_DAY} to today.`,
    example: '2026-02-14',
  },
  fee_amount: { description: 'Fee in hundredths of `currency`.', example: 30 },
  fee_percentage: {
    description: 'Fee in percent of price x quantity, on top of `fee_amount`; up to six decimal places.',
    example: 2.5,
  },
  marketplace: { description: 'Where it was traded, 1 to 64 characters.', example: 'provider_02' },
  note: { description: 'Free text, 1 to 1000 characters.', example: 'from the spring sale' },
}

export const transactionBody = ({ isCurrency, latestDay }: TransactionScope) =>
  z
    .strictObject({
      ...itemChoice,
      type: direction.meta(NOTES.type),
      quantity: quantity.meta(QUANTITY_NOTE),
      price: z.int().min(0).meta(NOTES.price),
      date: ledgerDay(latestDay).meta(NOTES.date),
      fee_amount: optional(z.int().min(0)).meta(NOTES.fee_amount),
      fee_percentage: optional(percentage).meta(NOTES.fee_percentage),
      marketplace: optional(marketplace).meta(NOTES.marketplace),
      note: optional(note).meta(NOTES.note),
      currency: currencyMember(isCurrency),
    })
    .refine(hasItem, needsItem)

/** Body of PATCH /portfolio/:id/transactions/:tx_id; `currency` has no default, since what is left out does not change. */
export const transactionPatch = ({ isCurrency, latestDay }: TransactionScope) =>
  z
    .strictObject({
      type: optional(direction).meta(NOTES.type),
      quantity: optional(quantity).meta(QUANTITY_NOTE),
      price: optional(z.int().min(0)).meta(NOTES.price),
      date: optional(ledgerDay(latestDay)).meta(NOTES.date),
      fee_amount: z.int().min(0).nullable().optional().meta(NOTES.fee_amount),
      fee_percentage: percentage.nullable().optional().meta(NOTES.fee_percentage),
      marketplace: marketplace.nullable().optional().meta(NOTES.marketplace),
      note: note.nullable().optional().meta(NOTES.note),
      currency: optional(currencyCode(isCurrency)).meta({
        description: 'Code of the currency of amounts, one that `GET /v1/fx` lists.',
        example: 'EUR',
      }),
    })
    .refine(namesChange, {
      ...violates('missing', 'Field required: at least one member to change'),
      path: [],
    })

const changedAt = instant.meta({ example: '2026-03-03T21:44:10.000Z' })

export const transactionReply = z.strictObject({
  id: z.uuid().meta({ example: TRANSACTION_ID }),
  ...itemMembers,
  type: direction,
  quantity: z.int().min(1).meta({ example: 2 }),
  price: amount.meta({ example: 2710 }),
  currency: currencyName,
  date: z.iso.date().meta({ example: '2026-02-14' }),
  fee_amount: amount.nullable(),
  fee_percentage: z.number().nullable().meta({ example: 2.5 }),
  marketplace: z.string().nullable().meta({ example: 'provider_02' }),
  note: z.string().nullable(),
  created_at: changedAt,
  updated_at: changedAt,
})

export const transactionsReply = z.array(transactionReply)
