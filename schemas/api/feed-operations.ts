/** The operations of the role `feed`; /asyncapi.json describes the same streams event by event. */
import { z } from 'zod'
import {
  changedEvent,
  FEED_EXAMPLES,
  feedTokenReply,
  readyEvent,
  recordedEvent,
  replayEndEvent,
  resyncEvent,
  snapshotEndEvent,
} from './feed.ts'
import { feedQuery, replayQuery, salesFeedQuery } from './feed-query.ts'
import { json, type NamedSchema, type Operation, QUANT, type Reply } from './operation.ts'

const STREAM = {
  method: 'get',
  group: 'Feeds',
  tiers: QUANT,
  access: 'stream',
  errors: ['RATE_LIMIT_FEED_CONNECTIONS_EXCEEDED'],
} as const
const liveOf = (what: string) =>
  `Server-Sent Events: \`ready\` first, then ${what} as refreshes bring them, one event per provider and moment, or several with 1000 items and a line of 65,535 bytes at most; a comment \`: ping\` every 20 seconds while idle. Nothing is kept for who is away. A key holds two connections at once over all feeds. The stream ends within a second of the end of its key, and when its client leaves more than 16 MiB unread.`
const LIVE = liveOf('changes')

/** Begins every stream. */
const READY = { ready: { name: 'FeedReady', schema: readyEvent } }
const CHANGED = { name: 'FeedChanged', schema: changedEvent }
const RECORDED = { name: 'FeedSalesRecorded', schema: recordedEvent }
const RESYNC = { resync: { name: 'FeedResync', schema: resyncEvent } }
const BEYOND = { ...RESYNC, 'snapshot.end': { name: 'FeedSnapshotEnd', schema: snapshotEndEvent } }

const replayOf = (what: string) =>
  `Beyond the specification. ${what} whose \`seen_at\` lies in the range, in the order of recording, at any speed; \`replay.end\` and the end of the stream follow.`
const REPLAY = replayOf('Changes')
const END = { 'replay.end': { name: 'FeedReplayEnd', schema: replayEndEvent } }

const HEADERS = {
  'Cache-Control': 'private, no-cache, no-transform',
  'X-Accel-Buffering': 'no: a proxy in front passes events on as they come.',
}

function streamOf(name: keyof typeof FEED_EXAMPLES, description: string, own: Record<string, NamedSchema>): Reply {
  const events: Record<string, NamedSchema> = { ...READY, ...own }
  const begun = FEED_EXAMPLES[name]
  return {
    status: 200,
    name,
    schema: z
      .union(Object.values(events).map(({ schema }) => schema))
      .describe('Data of an event; `x-events`, beside this schema, has that of each event.'),
    description: `${description}\n\n\`\`\`text\n${begun}\`\`\``,
    example: Object.fromEntries(
      [...begun.matchAll(/^event: (.+)\ndata: (.+)$/gm)].map(([, event, data = '']) => [event, JSON.parse(data)]),
    ),
    type: 'text/event-stream',
    headers: HEADERS,
    events,
  }
}

export function feedOperations(providers: readonly string[]) {
  return {
    prices: {
      ...STREAM,
      id: 'streamPriceChanges',
      path: '/feed/prices',
      summary: 'Changes of asks as they happen',
      description: LIVE,
      query: feedQuery(providers),
      reply: streamOf('PricesFeed', 'The stream of asks.', { 'prices.changed': CHANGED, ...BEYOND }),
    },
    bids: {
      ...STREAM,
      id: 'streamBidChanges',
      path: '/feed/bids',
      summary: 'Changes of buy orders as they happen',
      description: LIVE,
      query: feedQuery(providers),
      reply: streamOf('BidsFeed', 'The stream of buy orders.', { 'bids.changed': CHANGED, ...BEYOND }),
    },
    sales: {
      ...STREAM,
      id: 'streamSales',
      path: '/feed/sales',
      summary: 'Sales as they are reported',
      description: `${liveOf('sales')} A sale comes once, though its provider lists it for long.`,
      query: salesFeedQuery(providers),
      reply: streamOf('SalesFeed', 'The stream of sales.', { 'sales.recorded': RECORDED, ...RESYNC }),
    },
    replayPrices: {
      ...STREAM,
      id: 'replayPriceChanges',
      path: '/feed/replay/prices',
      summary: 'Recorded changes of asks again',
      description: REPLAY,
      query: replayQuery(providers),
      reply: streamOf('PricesReplay', 'The recorded changes of asks.', { 'prices.changed': CHANGED, ...END }),
    },
    replayBids: {
      ...STREAM,
      id: 'replayBidChanges',
      path: '/feed/replay/bids',
      summary: 'Recorded changes of buy orders again',
      description: REPLAY,
      query: replayQuery(providers),
      reply: streamOf('BidsReplay', 'The recorded changes of buy orders.', { 'bids.changed': CHANGED, ...END }),
    },
    replaySales: {
      ...STREAM,
      id: 'replaySales',
      path: '/feed/replay/sales',
      summary: 'Recorded sales again',
      description: replayOf('Sales'),
      query: replayQuery(providers),
      reply: streamOf('SalesReplay', 'The recorded sales.', { 'sales.recorded': RECORDED, ...END }),
    },
    token: {
      ...STREAM,
      id: 'issueFeedToken',
      method: 'post',
      path: '/feed/token',
      access: 'uncounted',
      summary: 'A token with which a browser opens one stream',
      description:
        'It has the rights of the key that asks, counts as a connection of it, and ends with it. It opens a stream within five minutes, and again after a break while that stream was alive less than 15 minutes ago; a second connection ends the first.',
      reply: json('FeedTokenReply', feedTokenReply, 'A token, good for five minutes and one stream.'),
      errors: [],
    },
  } satisfies Record<string, Operation>
}
