/**
 * Inventories of the game's platform: parameters and answer.
 *
 * Rules: DECISIONS.md, "Portfolios and inventories".
 */
import { z } from 'zod'
import { assetMembers } from './portfolios.ts'
import { violates } from './query-values.ts'

const ACCOUNT_FORM = /^(\d{17}|[A-Za-z0-9_-]{2,32})$/

/** Query of GET /inventory/gamestore/lookup. */
export const lookupQuery = z.object({
  gamestore_id: z
    .string()
    .refine(
      value => ACCOUNT_FORM.test(value),
      violates('value_error', 'Input should be a 17-digit account id or a vanity name'),
    ),
})

/** Answer of both inventory routes. */
export const inventoryReply = z.strictObject({
  data: z.array(
    z.strictObject({
      assetid: z.string(),
      market_hash_name: z.string(),
      phase: z.string().nullable(),
      /** Without the wear. */
      name: z.string(),
      icon_url: z.string(),
      tradable: z.boolean(),
      marketable: z.boolean(),
      quantity: z.int().min(1),
      ...assetMembers,
    }),
  ),
  total_count: z.int().min(0),
})
