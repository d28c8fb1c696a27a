import type { Metrics } from '#infra/runtime/metrics.ts'
import type { FeedSide } from '#schemas/events/feed-advanced.ts'

export const FEED_NAMES: Record<FeedSide, string> = { ask: 'prices', bid: 'bids', sale: 'sales' }

/** Labels hold a feed, a reason or a status, so the number of series does not grow with clients. */
export type FeedMetrics = ReturnType<typeof openFeedMetrics>

export const openFeedMetrics = (metrics: Metrics) => ({
  connections: metrics.gauge('feed_connections', 'Open streams', ['feed']),
  catchingUp: metrics.gauge('feed_catching_up', 'Open streams that are not live yet'),
  ended: metrics.counter('feed_ended_total', 'Streams that ended', ['feed', 'reason']),
  events: metrics.counter('feed_events_total', 'Events queued for subscribers', ['feed']),
  bytes: metrics.counter('feed_bytes_total', 'Bytes of the events queued for subscribers', ['feed']),
  held: metrics.gauge('feed_held_changes', 'Changes held until their refresh is complete', ['topic']),
  unknownItems: metrics.counter(
    'feed_unknown_items_total',
    'Changes and sales left out, most because the catalog lacks their item',
  ),
  undecodable: metrics.counter('feed_undecodable_total', 'Records of the log that could not be read'),
  age: metrics.histogram('feed_event_age_seconds', 'From a change in the log to its event', ['feed']),
})
