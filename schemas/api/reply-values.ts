/**
 * Schemas of reply members that several operations share, and the examples of replies.
 *
 * Rules: DECISIONS.md, "Conventions" and "Amounts and rates". Reply schemas are strict objects, so a member that
 * none of them names fails the contract test. A member has its example beside it, of which that of a reply is made.
 */
import { z } from 'zod'

/** The example of a schema: its own, or else null where that is allowed, false, the literal, the first value, or those of the members. */
export function exampleOf(schema: z.core.$ZodType): unknown {
  const own = z.globalRegistry.get(schema)?.example
  if (own !== undefined) return own
  if (schema instanceof z.ZodNullable) return null
  if (schema instanceof z.ZodBoolean) return false
  if (schema instanceof z.ZodLiteral) return schema.value
  if (schema instanceof z.ZodEnum) return schema.options[0]
  if (schema instanceof z.ZodArray) return [exampleOf(schema.element)]
  if (!(schema instanceof z.ZodObject)) return undefined
  const members = Object.entries(schema.shape).map(([name, member]) => [name, exampleOf(member)])
  return Object.fromEntries(members.filter(([, example]) => example !== undefined))
}

/** Hundredths of a currency; passes 2^53 in currencies with 10^11 units to the dollar, and stays whole. */
export const amount = z
  .number()
  .nonnegative()
  .refine(Number.isInteger, 'expected a whole number')
  .meta({ type: 'integer' })

export const currencyName = z.string().meta({ example: 'USD' })

/** A provider's key, not checked. */
export const providerName = z.string().meta({ example: 'provider_02' })

/** ISO 8601 in UTC, with milliseconds. */
export const instant = z.iso.datetime({ precision: 3 })

export const itemMembers = {
  item_id: z.int().meta({ example: 4940 }),
  market_hash_name: z.string().meta({ example: 'AK-47 | Redline (Field-Tested)' }),
  phase: z.string().nullable(),
}

const onePage = (limit: number, total: number) => ({ limit, offset: 0, total, has_next: false, has_prev: false })

const offsetPagination = z
  .strictObject({
    limit: z.int().min(1),
    offset: z.int().min(0),
    total: z.int().min(0),
    has_next: z.boolean(),
    has_prev: z.boolean(),
  })
  .meta({ id: 'Pagination' })

export type OffsetPagination = z.infer<typeof offsetPagination>

/** Pagination by offset; the example is of a limit. */
export const offsetPages = (limit: number) => offsetPagination.meta({ example: onePage(limit, 1) })

const cursorPagination = z
  .strictObject({
    limit: z.int().min(1),
    offset: z.literal(0),
    total: z.literal(-1),
    has_next: z.boolean(),
    has_prev: z.boolean(),
    next_cursor: z.string().nullable(),
  })
  .meta({ id: 'CursorPagination' })

/** Pagination by cursor: no total is known, and `next_cursor` is null on the last page. */
export const cursorPages = (limit: number) =>
  cursorPagination.meta({ example: { ...onePage(limit, -1), next_cursor: null } })
