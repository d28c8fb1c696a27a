import type { Metrics } from '#infra/runtime/metrics.ts'
import type { FeedSide } from '#schemas/events/feed-advanced.ts'

export const FEED_NAMES: Record<FeedSide, string> = { ask: 'prices', bid: 'bids', sale: 'sales' }

/** Labels hold a feed, a reason or a code, so the number of series does not grow with clients. */
export type FeedMetrics = ReturnType<typeof openFeedMetrics>

export const openFeedMetrics = (metrics: Metrics) => ({
  connections: metrics.gauge('feed_connections', 'Open streams', ['feed']),
  catchingUp: metrics.gauge('feed_catching_up', 'Open streams that are not live yet'),
  logReaders: metrics.gauge('feed_log_readers', 'Open streams that are read from the log'),
  ended: metrics.counter('feed_ended_total', 'Streams that ended', ['feed', 'reason']),
  refused: metrics.counter('feed_refused_total', 'Requests for a stream that were refused', ['code']),
  events: metrics.counter('feed_events_total', 'Events queued for subscribers', ['feed']),
  items: metrics.counter('feed_items_total', 'Items in the events queued for subscribers', ['feed']),
  bytes: metrics.counter('feed_bytes_total', 'Bytes of the events queued for subscribers', ['feed']),
  held: metrics.gauge('feed_held_changes', 'Changes held until their refresh is complete', ['topic']),
  window: metrics.gauge('feed_window_bytes', 'Bytes of the newest events, which streams resume from', ['topic']),
  unknownItems: metrics.counter(
    'feed_unknown_items_total',
    'Changes and sales left out, most because the catalog lacks their item',
  ),
  undecodable: metrics.counter('feed_undecodable_total', 'Records of the log that could not be read'),
  age: metrics.histogram('feed_event_age_seconds', 'From a change in the log to its event', ['feed']),
})
