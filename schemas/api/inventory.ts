/** Inventories of the game's platform. Rules: DECISIONS.md, "Portfolios and inventories". */
import { z } from 'zod'
import { assetMembers } from './portfolios.ts'
import { violates } from './query-values.ts'
import { itemMembers } from './reply-values.ts'

const ACCOUNT_FORM = /^(\d{17}|[A-Za-z0-9_-]{2,32})$/

export const lookupQuery = z.object({
  gamestore_id: z
    .string()
    .refine(
      value => ACCOUNT_FORM.test(value),
      violates('value_error', 'Input should be a 17-digit account id or a vanity name'),
    )
    .meta({
      pattern: ACCOUNT_FORM.source,
      description: 'A 17-digit account id or a vanity name.',
      example: '76561190000000001',
    }),
})

export const inventoryReply = z.strictObject({
  data: z.array(
    z.strictObject({
      assetid: z.string().meta({ example: '31204567890' }),
      market_hash_name: itemMembers.market_hash_name,
      phase: z.string().nullable(),
      name: z.string().meta({ description: 'Without the wear.', example: 'AK-47 | Redline' }),
      icon_url: z.string().meta({ example: 'https://images.example.com/redline.png' }),
      tradable: z.boolean().meta({ example: true }),
      marketable: z.boolean().meta({ example: true }),
      quantity: z.int().min(1).meta({ example: 1 }),
      ...assetMembers,
    }),
  ),
  total_count: z.int().min(0).meta({ example: 1 }),
})
