/** GET /market/movers. Rules: DECISIONS.md, "Movers". Amounts are decimal texts in US dollars. */
import { z } from 'zod'
import { count, marketMeta, usd } from './market.ts'
import { decimal, integer, text } from './query-values.ts'
import { instant, itemMembers } from './reply-values.ts'

export const moversQuery = z.object({
  window: z
    .enum(['1h', '24h', '7d'])
    .default('24h')
    .meta({ description: 'How far back the best ask is compared.', example: '24h' }),
  direction: z
    .enum(['up', 'down', 'both'])
    .default('both')
    .meta({ description: 'Rises, falls, or both by absolute change.', example: 'both' }),
  limit: integer({ min: 1, max: 200 })
    .default(50)
    .meta({ description: 'Items of the answer, 50 by default.', example: 50 }),
  min_price_usd: decimal({ min: 0, max: 1_000_000_000 })
    .default(1)
    .meta({ description: 'Least best ask in US dollars.', example: 1 }),
  min_providers: integer({ min: 0, max: 1_000 })
    .default(2)
    .meta({ description: 'How many providers that are up must list the item at least.', example: 2 }),
  item_type: text()
    .optional()
    .meta({ description: 'Class of the items, in any case; see `GET /v1/items/metadata`.', example: 'Weapon' }),
})

export type MoversQuery = z.infer<typeof moversQuery>

export const moversReply = z.strictObject({
  meta: z.strictObject(marketMeta),
  data: z.array(
    z.strictObject({
      ...itemMembers,
      item_type: z.string().nullable().meta({ example: 'Weapon' }),
      best_ask_usd: usd.meta({ example: '29.31' }),
      previous_best_ask_usd: usd.meta({
        description: 'The composite best ask at the start of the window.',
        example: '26.05',
      }),
      change_usd: usd.meta({ example: '3.26' }),
      change_pct: z
        .number()
        .meta({ description: 'In percent of the previous best ask, two decimals.', example: 12.51 }),
      provider_count: count.meta({ description: 'Providers that are up and list the item.', example: 31 }),
      volume: count.meta({ description: 'Units consumed in the window.', example: 87 }),
      since: instant.meta({ description: 'Start of the window.', example: '2026-03-02T21:40:00.000Z' }),
    }),
  ),
})
