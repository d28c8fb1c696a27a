/**
 * POST /prices/batch and POST /bids/batch: the bodies and the answers of batch lookups.
 *
 * Rules: DECISIONS.md, "Prices and bids". Invariant: ids and names count together and as sent,
 * repeats included; prices are hundredths of the answer's currency.
 */
import { z } from 'zod'
import { currency, DEFAULT_CURRENCY, optional, providerKey, text, violates } from './query-values.ts'
import { amount, instant } from './reply-values.ts'

/** What the body of a batch depends on. */
export interface BatchScope {
  /** The provider keys of the side. */
  providers: readonly string[]
  isCurrency: (code: string) => boolean
}

/** Ids and names that one batch may hold together. */
export const BATCH_ITEMS_MAX = 100

/** Body of a batch lookup. */
export const batchBody = ({ providers, isCurrency }: BatchScope) =>
  z
    .strictObject({
      item_ids: optional(z.array(z.int().min(1))),
      market_hash_names: optional(z.array(text())),
      providers: optional(z.array(providerKey(providers))),
      currency: optional(currency(isCurrency)).transform(code => code ?? DEFAULT_CURRENCY),
    })
    .refine(body => sizeOf(body) > 0, {
      ...violates('missing', 'Field required: item_ids or market_hash_names, with at least one member'),
      path: ['item_ids'],
      when: () => true,
    })
    .refine(body => sizeOf(body) <= BATCH_ITEMS_MAX, {
      ...violates('too_long', `item_ids and market_hash_names take at most ${BATCH_ITEMS_MAX} members together`, {
        max_length: BATCH_ITEMS_MAX,
      }),
      path: [],
      when: () => true,
    })

/** Parsed body of a batch lookup. */
export type BatchBody = z.infer<ReturnType<typeof batchBody>>

/** Looks at what was sent, also where other members are at fault. */
function sizeOf(body: { item_ids?: unknown; market_hash_names?: unknown } | undefined): number {
  return [body?.item_ids, body?.market_hash_names].reduce<number>(
    (sum, list) => sum + (Array.isArray(list) ? list.length : 0),
    0,
  )
}

const times = { timestamp: instant, last_updated: instant }

const askQuote = z.strictObject({
  provider: z.string(),
  lowest_ask: amount,
  lowest_ask_decimal: z.string(),
  quantity: z.int(),
  ...times,
})

const bidQuote = z.strictObject({
  provider: z.string(),
  highest_bid: amount,
  highest_bid_decimal: z.string(),
  num_bids: z.int(),
  ...times,
})

const replyOf = <T extends z.ZodType>(quote: T) =>
  z.strictObject({
    meta: z.strictObject({
      currency: z.string(),
      requested_item_count: z.int().min(1).max(BATCH_ITEMS_MAX),
      found_item_count: z.int().min(0),
      providers_queried: z.array(z.string()),
      generated_at: instant,
    }),
    /** One entry per item with a quote, in the order of the request. */
    items: z.array(
      z.strictObject({
        item_id: z.int(),
        market_hash_name: z.string(),
        phase: z.string().nullable(),
        quotes: z.array(quote).min(1),
      }),
    ),
    /** Ids, those of names included, without a quote of any queried provider. */
    items_not_found: z.array(z.int()),
    /** Names that no catalog item has. */
    names_not_found: z.array(z.string()),
  })

/** Answer of POST /prices/batch. */
export const pricesBatchReply = replyOf(askQuote)

/** Answer of POST /bids/batch. */
export const bidsBatchReply = replyOf(bidQuote)
