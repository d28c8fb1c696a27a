/**
 * GET /providers and GET /fx. Rules: DECISIONS.md, "Provider health". Rates are units of a currency per US dollar,
 * with all digits of their source.
 */
import { z } from 'zod'
import { providerKey } from './query-values.ts'
import { amount, instant } from './reply-values.ts'

export const providersQuery = (keys: readonly string[]) =>
  z.object({
    provider: providerKey(keys)
      .optional()
      .meta({ description: 'One provider instead of all.', example: 'provider_02' }),
  })

const fee = z.number().nullable()

export const providerRecord = z
  .strictObject({
    key: z.string(),
    code: z.string(),
    logo: z.url(),
    market_type: z.enum(['STORE', 'P2P', 'ESCROW', 'TRADING', 'HYBRID']),
    default_currency: z.string(),
    fees: z.strictObject({ sell_fee: fee, insta_sell_fee: fee, trading_spread_fee: fee }),
    features: z.strictObject({ has_buy_orders: z.boolean(), has_recent_sales: z.boolean() }),
    health: z.strictObject({
      status: z.enum(['up', 'down']),
      last_checked_at: instant.nullable().describe('Null until the first refresh.'),
      total_offers: z.int(),
      unique_items: z.int(),
      market_coverage: z.number().describe('Percent of the catalog.'),
      total_value: amount,
      total_value_usd: amount,
    }),
  })
  .meta({ id: 'Provider' })

export type ProviderRecord = z.infer<typeof providerRecord>

/** Answer of GET /providers: display name → record. */
export const providersReply = z.record(z.string(), providerRecord).meta({
  example: {
    'Market Two': {
      key: 'provider_02',
      code: 'P02',
      logo: 'https://images.example.com/provider_02.png',
      market_type: 'P2P',
      default_currency: 'CNY',
      fees: { sell_fee: 0.025, insta_sell_fee: null, trading_spread_fee: null },
      features: { has_buy_orders: true, has_recent_sales: true },
      health: {
        status: 'up',
        last_checked_at: '2026-03-03T21:40:02.000Z',
        total_offers: 812_345,
        unique_items: 21_007,
        market_coverage: 83.4,
        total_value: 9_120_334_455,
        total_value_usd: 1_314_150_498,
      },
    },
  },
})

export const fxReply = z.strictObject({ timestamp: instant, rates: z.record(z.string(), z.number().positive()) }).meta({
  example: { timestamp: '2026-03-03T00:00:00.000Z', rates: { USD: 1, EUR: 0.8537041, BTC: 0.000012017405 } },
})
