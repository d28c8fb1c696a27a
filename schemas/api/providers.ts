/**
 * GET /providers and GET /fx: parameters and answers.
 *
 * Rules: DECISIONS.md, "Provider health". Invariant: rates are units of a currency per US
 * dollar, with all digits of their source.
 */
import { z } from 'zod'
import { providerKey } from './query-values.ts'
import { amount, instant } from './reply-values.ts'

/** Parameters of GET /providers. */
export const providersQuery = (keys: readonly string[]) => z.object({ provider: providerKey(keys).optional() })

const fee = z.number().nullable()

/** One provider. */
export const providerRecord = z.strictObject({
  key: z.string(),
  code: z.string(),
  logo: z.url(),
  market_type: z.enum(['STORE', 'P2P', 'ESCROW', 'TRADING', 'HYBRID']),
  default_currency: z.string(),
  fees: z.strictObject({ sell_fee: fee, insta_sell_fee: fee, trading_spread_fee: fee }),
  features: z.strictObject({ has_buy_orders: z.boolean(), has_recent_sales: z.boolean() }),
  health: z.strictObject({
    status: z.enum(['up', 'down']),
    /** Null until the first refresh. */
    last_checked_at: instant.nullable(),
    total_offers: z.int(),
    unique_items: z.int(),
    /** Percent of the catalog. */
    market_coverage: z.number(),
    total_value: amount,
    total_value_usd: amount,
  }),
})

/** One provider. */
export type ProviderRecord = z.infer<typeof providerRecord>

/** Answer of GET /providers: display name → record. */
export const providersReply = z.record(z.string(), providerRecord)

/** Answer of GET /fx. */
export const fxReply = z.strictObject({ timestamp: instant, rates: z.record(z.string(), z.number().positive()) })
