/** Rules: DECISIONS.md, "Provider health". Rates are units per US dollar, with all digits of their source. */
import { z } from 'zod'
import { providerKey } from './query-values.ts'
import { amount, exampleOf, instant, providerName } from './reply-values.ts'

export const providersQuery = (keys: readonly string[]) =>
  z.object({
    provider: providerKey(keys)
      .optional()
      .meta({ description: 'One provider instead of all.', example: 'provider_02' }),
  })

const fee = z.number().nullable()

export const providerRecord = z
  .strictObject({
    key: providerName,
    code: z.string().meta({ example: 'P02' }),
    logo: z.url().meta({ example: 'https://images.example.com/provider_02.png' }),
    market_type: z.enum(['STORE', 'P2P', 'ESCROW', 'TRADING', 'HYBRID']).meta({ example: 'P2P' }),
    default_currency: z.string().meta({ example: 'CNY' }),
    fees: z.strictObject({ sell_fee: fee.meta({ example: 0.025 }), insta_sell_fee: fee, trading_spread_fee: fee }),
    features: z
      .strictObject({ has_buy_orders: z.boolean(), has_recent_sales: z.boolean() })
      .meta({ example: { has_buy_orders: true, has_recent_sales: true } }),
    health: z.strictObject({
      status: z.enum(['up', 'down']),
      last_checked_at: instant
        .nullable()
        .meta({ description: 'Null until the first refresh.', example: '2026-03-03T21:40:02.000Z' }),
      total_offers: z.int().meta({ example: 812_345 }),
      unique_items: z.int().meta({ example: 21_007 }),
      market_coverage: z.number().meta({ description: 'Percent of the catalog.', example: 83.4 }),
      total_value: amount.meta({ example: 9_120_334_455 }),
      total_value_usd: amount.meta({ example: 1_314_150_498 }),
    }),
  })
  .meta({ id: 'Provider' })

export type ProviderRecord = z.infer<typeof providerRecord>

/** Answer of GET /providers: display name → record. */
export const providersReply = z
  .record(z.string(), providerRecord)
  .meta({ example: { 'Market Two': exampleOf(providerRecord) } })

export const fxReply = z.strictObject({
  timestamp: instant.meta({ example: '2026-03-03T00:00:00.000Z' }),
  rates: z.record(z.string(), z.number().positive()).meta({ example: { USD: 1, EUR: 0.8537041, BTC: 0.000012017405 } }),
})
