/** Rules: DECISIONS.md, "Prices and bids". Ids and names count together and as sent, repeats included. */
import { z } from 'zod'
import { askQuote, bidQuote } from './listing.ts'
import {
  currencyMember,
  list,
  type MarketScope,
  NAME_NOTE,
  optional,
  providersMember,
  selectionLengths,
  text,
  violates,
} from './query-values.ts'
import { currencyName, instant, itemMembers, providerName } from './reply-values.ts'

const BATCH_ITEMS_MAX = 100

export const batchBody = ({ providers, isCurrency }: MarketScope) =>
  z
    .strictObject({
      item_ids: optional(list(z.int().min(1), { max: BATCH_ITEMS_MAX })).meta({
        description: `Catalog ids. Ids and names together at most ${BATCH_ITEMS_MAX}.`,
        example: [4940, 4941],
      }),
      market_hash_names: optional(list(text(), { max: BATCH_ITEMS_MAX })).meta({
        description: `Names. ${NAME_NOTE} The name of a phased finish means its cheapest phase. Ids and names together at most ${BATCH_ITEMS_MAX}.`,
        example: ['AK-47 | Redline (Field-Tested)'],
      }),
      providers: providersMember(providers),
      currency: currencyMember(isCurrency),
    })
    .refine(body => sizeOf(body) > 0, {
      ...violates('missing', 'Field required: item_ids or market_hash_names, with at least one member'),
      path: ['item_ids'],
      when: () => true,
    })
    .refine(body => hasLongList(body) || sizeOf(body) <= BATCH_ITEMS_MAX, {
      ...violates('too_long', `item_ids and market_hash_names take at most ${BATCH_ITEMS_MAX} members together`, {
        max_length: BATCH_ITEMS_MAX,
      }),
      path: [],
      when: () => true,
    })

export type BatchBody = z.infer<ReturnType<typeof batchBody>>

const sizeOf = (body: object): number => selectionLengths(body).reduce((sum, length) => sum + length, 0)

/** A list that is too long by itself is a violation of its own. */
const hasLongList = (body: object): boolean => selectionLengths(body).some(length => length > BATCH_ITEMS_MAX)

const replyOf = <T extends z.ZodType>(quote: T) =>
  z.strictObject({
    meta: z.strictObject({
      currency: currencyName,
      requested_item_count: z.int().min(1).max(BATCH_ITEMS_MAX).meta({ example: 3 }),
      found_item_count: z.int().min(0).meta({ example: 1 }),
      providers_queried: z.array(providerName),
      generated_at: instant.meta({ example: '2026-03-03T21:41:00.000Z' }),
    }),
    items: z
      .array(z.strictObject({ ...itemMembers, quotes: z.array(quote).min(1) }))
      .describe('One entry per item with a quote, in the order of the request.'),
    items_not_found: z.array(z.int()).meta({
      description: 'Ids, those of names included, without a quote of any queried provider.',
      example: [4941],
    }),
    names_not_found: z
      .array(z.string())
      .meta({ description: 'Names that no catalog item has.', example: ['No Such Item'] }),
  })

export const pricesBatchReply = replyOf(askQuote.meta({ id: 'PriceQuote' }))

export const bidsBatchReply = replyOf(bidQuote.meta({ id: 'BidQuote' }))
