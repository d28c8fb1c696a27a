/**
 * What the feeds send, for the API's description: texts of streams, and a token.
 *
 * Names are those of the description's schemas; a contract test holds each event against its schema.
 */

const READY = { providers: ['provider_02'], item_ids_filter_count: 1, market_hash_names_filter_count: 0 }
const ITEM = { item_id: 4940, market_hash_name: 'AK-47 | Redline (Field-Tested)', phase: null }

const event = (name: string, data: object): string => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`

const changed = (name: string, price: number): string =>
  event(name, {
    ...{ provider: 'provider_02', seen_at: '2026-03-03T21:34:30.549Z' },
    items: [{ ...ITEM, price, qty: 14, change: 'updated' }],
  })

/** Schema name → an answer. */
export const FEED_EXAMPLES: Record<string, unknown> = {
  PricesFeed: `${event('ready', READY)}${changed('prices.changed', 2931)}: ping\n\n`,
  BidsFeed: `${event('ready', READY)}${changed('bids.changed', 2710)}: ping\n\n`,
  PricesReplay: `${event('ready', READY)}${changed('prices.changed', 2931)}${event('replay.end', { items: 1 })}`,
  FeedTokenReply: { token: 'XvN2v0rJ8nM1mPq3y5cT7bWdKfHsLzAeRgUiOpQxYtE', expires_at: '2026-03-03T21:46:00.000Z' },
}
