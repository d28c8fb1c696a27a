/**
 * Events of the feeds and the reply of POST /feed/token. Rules: DECISIONS.md, "Feeds".
 *
 * The feed writes its events as text for speed; tests check the events against these schemas, from which OpenAPI and
 * AsyncAPI are generated.
 */
import { z } from 'zod'
import { exampleOf } from './reply-values.ts'
import { saleRecord } from './sales.ts'

const instant = z.iso.datetime().describe('ISO 8601, UTC')

/** The first event of every stream. */
export const readyEvent = z.strictObject({
  providers: z.array(z.string()).describe('Keys of the providers that the stream covers'),
  item_ids_filter_count: z.int().min(0).describe('Item ids in the filter, repeats included'),
  market_hash_names_filter_count: z.int().min(0).describe('Names in the filter, repeats included'),
})

export const feedItem = z.strictObject({
  item_id: z.int().describe('Unique per phase; key local state on it'),
  market_hash_name: z.string(),
  phase: z.string().nullable(),
  price: z.int().nullable().describe('Hundredths of a US dollar; null when removed'),
  qty: z.int().min(0).describe('Listings near the ask, or open buy orders; 0 when removed'),
  change: z.enum(['added', 'updated', 'removed']),
})

/** Changes of one provider, seen at one moment. */
export const changedEvent = z.strictObject({
  provider: z.string(),
  seen_at: instant,
  items: z.array(feedItem).min(1).max(1000),
})

/** Sales of one provider, seen at one moment. */
export const recordedEvent = z.strictObject({
  provider: z.string(),
  seen_at: instant,
  items: z.array(saleRecord).min(1).max(1000).describe('As `GET /sales` gives them, in US dollars'),
})

/** With `resume=true`: the missed events cannot be delivered. */
export const resyncEvent = z.strictObject({
  reason: z.enum(['expired', 'unknown']).describe('Past retention, or no position of this log'),
})

/** With `snapshot=true`: the state is complete and changes follow. */
export const snapshotEndEvent = z.strictObject({ items: z.int().min(0).describe('Rows of the state') })

/** A replay is complete. */
export const replayEndEvent = z.strictObject({ items: z.int().min(0).describe('Changes or sales that were replayed') })

export const feedTokenReply = z.strictObject({
  token: z.string().meta({
    description: 'Opens one stream, as the query parameter `token`',
    example: 'XvN2v0rJ8nM1mPq3y5cT7bWdKfHsLzAeRgUiOpQxYtE',
  }),
  expires_at: instant.meta({ example: '2026-03-03T21:46:00.000Z' }),
})

const eventText = (name: string, data: object): string => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`

const readyText = eventText('ready', {
  providers: ['provider_02'],
  item_ids_filter_count: 1,
  market_hash_names_filter_count: 0,
})

const EXAMPLE_ITEM = { item_id: 4940, market_hash_name: 'AK-47 | Redline (Field-Tested)', phase: null }
const ABOUT = { provider: 'provider_02', seen_at: '2026-03-03T21:34:30.549Z' }

const changedText = (name: string, price: number): string =>
  eventText(name, { ...ABOUT, items: [{ ...EXAMPLE_ITEM, price, qty: 14, change: 'updated' }] })

const recordedText = eventText('sales.recorded', { ...ABOUT, items: [exampleOf(saleRecord)] })

/** The beginning of each stream, by its name among the schemas of the document. */
export const FEED_EXAMPLES = {
  PricesFeed: `${readyText}${changedText('prices.changed', 2931)}: ping\n\n`,
  BidsFeed: `${readyText}${changedText('bids.changed', 2710)}: ping\n\n`,
  SalesFeed: `${readyText}${recordedText}: ping\n\n`,
  PricesReplay: `${readyText}${changedText('prices.changed', 2931)}${eventText('replay.end', { items: 1 })}`,
  BidsReplay: `${readyText}${changedText('bids.changed', 2702)}${eventText('replay.end', { items: 1 })}`,
  SalesReplay: `${readyText}${recordedText}${eventText('replay.end', { items: 1 })}`,
}
