/**
 * Schemas and example values of reply members that several operations share: amounts, instants, items, pagination.
 *
 * Rules: DECISIONS.md, "Conventions" and "Amounts and rates". Reply schemas are strict objects, so a member that
 * none of them names fails the contract test.
 */
import { z } from 'zod'

/** Hundredths of a currency; passes 2^53 in currencies with 10^11 units to the dollar, and stays whole. */
export const amount = z.number().nonnegative().refine(Number.isInteger, 'expected a whole number')

/** ISO 8601 in UTC, with milliseconds. */
export const instant = z.iso.datetime({ precision: 3 })

/** Names an item. */
export const itemMembers = {
  item_id: z.int(),
  market_hash_name: z.string(),
  phase: z.string().nullable(),
}

/** The item of the examples. */
export const exampleItem = { item_id: 4940, market_hash_name: 'AK-47 | Redline (Field-Tested)', phase: null }

/** Pagination by offset. */
export const offsetPagination = z
  .strictObject({
    limit: z.int().min(1),
    offset: z.int().min(0),
    total: z.int().min(0),
    has_next: z.boolean(),
    has_prev: z.boolean(),
  })
  .meta({ id: 'Pagination' })

/** Pagination by cursor: no total is known, and `next_cursor` is null on the last page. */
export const cursorPagination = z
  .strictObject({
    limit: z.int().min(1),
    offset: z.literal(0),
    total: z.literal(-1),
    has_next: z.boolean(),
    has_prev: z.boolean(),
    next_cursor: z.string().nullable(),
  })
  .meta({ id: 'CursorPagination' })

/** The pagination of an example whose one page holds one entry. */
export const examplePage = (limit: number) => ({ limit, offset: 0, total: 1, has_next: false, has_prev: false })

/** The same by cursor. */
export const exampleCursorPage = (limit: number) => ({ ...examplePage(limit), total: -1, next_cursor: null })

/** Pagination by offset. */
export type OffsetPagination = z.infer<typeof offsetPagination>
