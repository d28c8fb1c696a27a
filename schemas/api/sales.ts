/**
 * GET /sales. Rules: DECISIONS.md, "History and sales". Sales are listed newest first. A member that the provider
 * does not report is null; an empty list means that the item has none.
 */
import { z } from 'zod'
import {
  currency,
  decimal,
  integer,
  itemSelector,
  type MarketScope,
  pageCursor,
  providersParameter,
  repeated,
  text,
  violates,
} from './query-values.ts'
import { amount, currencyName, cursorPages, instant, itemMembers, providerName } from './reply-values.ts'

export const salesQuery = ({ providers, isCurrency, pageMax }: MarketScope & { pageMax: number }) =>
  z
    .object({
      ...itemSelector,
      providers: providersParameter(providers),
      min_float: decimal({ min: 0, max: 1 })
        .optional()
        .meta({ description: 'Least float value, included.', example: 0.15 }),
      max_float: decimal({ min: 0, max: 1 })
        .optional()
        .meta({ description: 'Greatest float value, included.', example: 0.38 }),
      paint_seed: integer({ min: 0, max: 999 }).optional().meta({ description: 'Exact paint seed.', example: 661 }),
      stickers: repeated(text())
        .optional()
        .meta({
          description: 'Names of stickers that must all be applied; repeated once per name.',
          example: ['Crown (Foil)'],
        }),
      charms: text().optional().meta({ description: 'Name of a charm that must be attached.', example: "Lil' Ava" }),
      currency: currency(isCurrency),
      limit: integer({ min: 1, max: pageMax }).default(pageMax).meta({
        description: 'Entries of a page: at most and by default 100 on pro, 1000 on quant.',
        example: 50,
      }),
      cursor: pageCursor(),
    })
    .refine(hasOrderedFloats, {
      ...violates('value_error', 'max_float should not be below min_float'),
      path: ['max_float'],
      when: () => true,
    })

export type SalesQuery = z.infer<ReturnType<typeof salesQuery>>

function hasOrderedFloats({ min_float, max_float }: { min_float?: unknown; max_float?: unknown }): boolean {
  return typeof min_float !== 'number' || typeof max_float !== 'number' || min_float <= max_float
}

export const saleRecord = z.strictObject({
  date: instant.meta({ example: '2026-03-03T20:11:09.000Z' }),
  provider: providerName,
  price: amount.meta({ example: 2900 }),
  currency: currencyName,
  ...itemMembers,
  float: z.number().nullable().meta({ example: 0.2113 }),
  paint_seed: z.int().nullable().meta({ example: 661 }),
  stickers: z
    .array(z.strictObject({ name: z.string(), slot: z.int(), wear: z.number() }))
    .nullable()
    .meta({ example: [{ name: 'Crown (Foil)', slot: 2, wear: 0 }] }),
  charms: z
    .array(z.strictObject({ name: z.string(), pattern_id: z.int().nullable() }))
    .nullable()
    .meta({ example: [] }),
  inspect: z
    .strictObject({
      in_game: z.string().nullable(),
      screenshot_front: z.string().nullable(),
      screenshot_back: z.string().nullable(),
    })
    .nullable(),
})

export const salesReply = z.strictObject({
  meta: z.strictObject({
    currency: currencyName,
    filters: z.strictObject({
      item_id: z.int().nullable().meta({ example: 4940 }),
      market_hash_name: z.string().nullable(),
      phase: z.string().nullable(),
      requested_providers: z.array(z.string()).nullable(),
      min_float: z.number().nullable(),
      max_float: z.number().nullable(),
      paint_seed: z.int().nullable(),
      stickers: z.array(z.string()).nullable(),
      charms: z.string().nullable(),
      limit: z.int().meta({ example: 100 }),
    }),
    providers_queried: z.array(providerName),
    result_count: z.int().meta({ example: 1 }),
  }),
  items: z.array(saleRecord),
  pagination: cursorPages(100),
})
