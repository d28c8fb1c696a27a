/** GET /market/arbitrage. Rules: DECISIONS.md, "Arbitrage". Amounts are decimal texts in US dollars. */
import { z } from 'zod'
import { count, marketMeta, usd } from './market.ts'
import { decimal, integer, pageOffset, providerKey, repeated } from './query-values.ts'
import { instant, itemMembers, providerName } from './reply-values.ts'

/** Parameters of GET /market/arbitrage; `cursor` is refused before they are read. */
export const arbitrageQuery = ({ askKeys, bidKeys }: { askKeys: readonly string[]; bidKeys: readonly string[] }) =>
  z.object({
    min_spread_pct: decimal({ min: -100, max: 1_000_000_000 })
      .default(1)
      .meta({ description: 'Least gross spread in percent, before fees.', example: 2.5 }),
    providers_buy: repeated(providerKey(askKeys))
      .optional()
      .meta({
        description: 'Keys of the providers to buy from; repeated once per key. All when left out.',
        example: ['provider_05'],
      }),
    providers_sell: repeated(providerKey(bidKeys))
      .optional()
      .meta({
        description: 'Keys of the providers of buy orders to sell to; repeated once per key. All when left out.',
        example: ['provider_02'],
      }),
    limit: integer({ min: 1, max: 1000 })
      .default(100)
      .meta({ description: 'Entries of a page, 100 by default.', example: 50 }),
    offset: pageOffset(),
  })

export type ArbitrageQuery = z.infer<ReturnType<typeof arbitrageQuery>>

const arbitrageItem = z
  .strictObject({
    ...itemMembers,
    buy_provider: providerName.meta({ example: 'provider_09' }),
    sell_provider: providerName,
    buy_price_usd: usd.meta({ example: '25.80' }),
    sell_price_usd: usd.meta({ example: '27.10' }),
    estimated_fees_usd: usd.meta({ example: '0.68' }),
    net_profit_usd: usd.meta({ example: '0.62' }),
    gross_spread_pct: z.number().meta({ example: 5.0388 }),
    quantity: count.meta({ description: 'The smaller of the two quantities.', example: 3 }),
    last_updated: instant.meta({
      description: 'Of the leg that was updated last.',
      example: '2026-03-03T21:40:40.000Z',
    }),
    buy_last_updated: instant.meta({ example: '2026-03-03T21:40:02.000Z' }),
    sell_last_updated: instant.meta({ example: '2026-03-03T21:40:40.000Z' }),
  })
  .meta({ id: 'ArbitragePair' })

export const arbitrageReply = z.strictObject({
  meta: z.strictObject({
    ...marketMeta,
    window: marketMeta.window.meta({ example: { timeframe: '60m' } }),
    excluded: z.strictObject({ stale: count, down: count, quarantined: count }).meta({
      description: 'Quotes of the queried providers that were left out, by reason.',
      example: { stale: 102, down: 8_411, quarantined: 0 },
    }),
  }),
  data: z.strictObject({ items: z.array(arbitrageItem) }),
  pagination: z
    .strictObject({
      limit: z.int().min(1),
      offset: z.int().min(0),
      total: z.literal(-1),
      has_next: z.boolean(),
      has_prev: z.boolean(),
    })
    .meta({ example: { limit: 100, offset: 0, total: -1, has_next: false, has_prev: false } }),
})
