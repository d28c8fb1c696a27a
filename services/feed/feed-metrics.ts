/** What the feed counts. Labels hold a feed, a reason or a code, so the number of series does not grow with clients. */
import type { Metrics } from '#infra/runtime/metrics.ts'
import type { Side } from '#schemas/events/book-changed.ts'

/** The feeds by their side of the book. */
export const FEED_NAMES: Record<Side, string> = { ask: 'prices', bid: 'bids' }

/** Why a stream ended. */
export type EndReason = 'client' | 'too_slow' | 'key' | 'stopping' | 'begin'

/** The feed's counters. */
export type FeedMetrics = ReturnType<typeof openFeedMetrics>

/** Opens the feed's counters in the process's registry. */
export function openFeedMetrics(metrics: Metrics) {
  return {
    connections: metrics.gauge('feed_connections', 'Open streams', ['feed']),
    catchingUp: metrics.gauge('feed_catching_up', 'Open streams that are not live yet'),
    readings: metrics.counter('feed_readings_total', 'Readings of the log that streams shared to catch up'),
    ended: metrics.counter('feed_ended_total', 'Streams that ended', ['feed', 'reason']),
    refused: metrics.counter('feed_refused_total', 'Requests for a stream that were refused', ['code']),
    events: metrics.counter('feed_events_total', 'Events queued for subscribers', ['feed']),
    items: metrics.counter('feed_items_total', 'Items in the events queued for subscribers', ['feed']),
    bytes: metrics.counter('feed_bytes_total', 'Bytes of the events queued for subscribers', ['feed']),
    held: metrics.gauge('feed_held_changes', 'Changes held until their refresh is complete'),
    unknownItems: metrics.gauge('feed_unknown_items', 'Changes left out because the catalog lacks their item'),
    undecodable: metrics.counter('feed_undecodable_total', 'Records of the log that could not be read'),
    age: metrics.histogram('feed_event_age_seconds', 'From a change in the log to its event', ['feed']),
  }
}
