/** The subscription tiers and what each may do. Rules: DECISIONS.md, "Limits". Each route declares its tiers itself. */
import { z } from 'zod'
import { readJsonFile } from './json-file.ts'

/** The tiers, lowest first. */
export const TIERS = ['free', 'starter', 'pro', 'quant'] as const

export type Tier = (typeof TIERS)[number]

const count = z.number().int().min(0)

const limits = z.strictObject({
  requests_per_minute: count.min(1),
  /** Per calendar month. */
  requests_per_month: count.min(1),
  /** Default and maximum of `limit` on prices and bids. */
  list_page_max: count.min(1),
  /** Default of `limit` on sales; null where sales are not offered. */
  sales_page_default: count.min(1).nullable(),
  /** Starts of POST /prices in any 24 hours, per key. */
  prices_stream_starts_per_day: count,
  /** Starts of POST /bids in any 24 hours, per key. */
  bids_stream_starts_per_day: count,
  /** Concurrent feed connections per key, both feeds together. */
  feed_connections: count,
  candle_intervals: z.array(z.enum(['5m', '1h', '1d'])).min(1),
  /** Longest candle lookback, in whole days; null = as far as data is kept, in hours too. */
  lookback_days_max: count.min(1).nullable(),
  /** Whether candles take `fill`, `start` and `end`. */
  can_choose_window: z.boolean(),
  portfolios: count,
  portfolio_items: count,
  enabled_alerts: count,
  /** Alerts of an account, disabled ones too. */
  alerts: count.default(50_000),
  /** Transactions of an account, over all of its portfolios. */
  transactions: count.default(5_000_000),
  /** Requests that cost more than most, of an account, over all of its keys. */
  expensive_requests_per_minute: count.min(1).default(60),
  child_keys: count,
  webhooks: count,
})

export type TierLimits = z.infer<typeof limits>

const tiersFile = z
  .strictObject({
    free: limits,
    starter: limits,
    pro: limits,
    quant: limits,
    /** Requests without a valid key, per address. */
    without_key: z.strictObject({ requests_per_minute: count.min(1) }).default({ requests_per_minute: 60 }),
  })
  .superRefine((tiers, context) => {
    TIERS.slice(1).forEach((tier, i) => {
      const lower = TIERS[i] as Tier
      for (const [field, value] of Object.entries(tiers[tier])) {
        const below = tiers[lower][field as keyof TierLimits]
        if (typeof value === 'number' && typeof below === 'number' && value < below) {
          const message = `${value} is less than ${lower}'s ${below}`
          context.addIssue({ code: 'custom', path: [tier, field], message })
        }
      }
    })
  })

const BUILT_IN = new URL('./tiers.json', import.meta.url)

export function loadTiers(file: string | URL = BUILT_IN): Record<Tier, TierLimits> {
  const { without_key: _, ...tiers } = readJsonFile(file, tiersFile)
  return tiers
}

/** Loads how many requests without a valid key an address may send in a minute. */
export function loadAddressLimit(file: string | URL = BUILT_IN): number {
  return readJsonFile(file, tiersFile).without_key.requests_per_minute
}

/** The requests that a key may send: its tier's, or fewer where the key itself is lowered. */
export function requestLimits(
  { requests_per_minute, requests_per_month }: TierLimits,
  lowered: { rate_requests_per_minute_override: number | null; quota_requests_per_month_override: number | null },
): { perMinute: number; perMonth: number } {
  return {
    perMinute: Math.min(lowered.rate_requests_per_minute_override ?? requests_per_minute, requests_per_minute),
    perMonth: Math.min(lowered.quota_requests_per_month_override ?? requests_per_month, requests_per_month),
  }
}
