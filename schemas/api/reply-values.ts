/**
 * What the members of answers are made of: amounts, instants, pagination.
 *
 * Rules: DECISIONS.md, "Conventions" and "Amounts and rates". Invariant: an answer's schema is
 * strict, so a member that it does not name fails the contract test.
 */
import { z } from 'zod'

/** Hundredths of a currency; passes 2^53 in currencies with 10^11 units to the dollar, and stays whole. */
export const amount = z.number().nonnegative().refine(Number.isInteger, 'expected a whole number')

/** ISO 8601 in UTC, with milliseconds. */
export const instant = z.iso.datetime({ precision: 3 })

/** Pagination by offset. */
export const offsetPagination = z.strictObject({
  limit: z.int().min(1),
  offset: z.int().min(0),
  total: z.int().min(0),
  has_next: z.boolean(),
  has_prev: z.boolean(),
})

/** Pagination by cursor: no total is known, and `next_cursor` is null on the last page. */
export const cursorPagination = z.strictObject({
  limit: z.int().min(1),
  offset: z.literal(0),
  total: z.literal(-1),
  has_next: z.boolean(),
  has_prev: z.boolean(),
  next_cursor: z.string().nullable(),
})

/** Pagination by offset. */
export type OffsetPagination = z.infer<typeof offsetPagination>

/** Pagination by cursor. */
export type CursorPagination = z.infer<typeof cursorPagination>
