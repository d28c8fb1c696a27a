/**
 * THE catalogue of topics: name, key, events, partitions, retention, single writer, readers.
 *
 * Topic creation, registration of schemas, producers (which refuse a topic that their role does not write), ACLs and
 * AsyncAPI derive from it. `market.book` has one partition per partition of the book's two inputs; with another number,
 * two producers would write one changelog partition.
 */
import { alertRuleChanged } from './events/alert-rule-changed.ts'
import { alertTriggered } from './events/alert-triggered.ts'
import { bookChanged, offerUrlChanged, refreshMarked } from './events/book-changed.ts'
import { bookRefreshStored, bookRowStored } from './events/book-state.ts'
import { catalogItemPublished, catalogVersionPublished } from './events/catalog-item-published.ts'
import { dayClosed } from './events/day-closed.ts'
import { deadLettered, nameUnresolved } from './events/dead-lettered.ts'
import type { EventSchema } from './events/event.ts'
import { feedAdvanced } from './events/feed-advanced.ts'
import { fxRatesPublished } from './events/fx-rates-published.ts'
import { nameSighted } from './events/name-sighted.ts'
import { askObserved, bidObserved, observationRejected, refreshCompleted, refreshFailed } from './events/observation.ts'
import { positionStored } from './events/position-stored.ts'
import { refreshJudged, refreshQuarantined } from './events/refresh-judged.ts'
import { saleObserved } from './events/sale-observed.ts'
import { DAY_MS } from './values/instant.ts'

const GIB = 2 ** 30

/** How long a topic keeps its records: for a time, or compacted to the last record of each key. */
export type Retention = { policy: 'delete'; ms: number; bytesPerPartition: number } | { policy: 'compact' }

/** One topic of the platform. */
export interface TopicDefinition {
  readonly name: string
  /** What the record key holds. */
  readonly key: string
  readonly events: readonly EventSchema<object>[]
  readonly partitions: number
  readonly retention: Retention
  /** The only role that writes it. */
  readonly writer: string
  readonly readers: readonly string[]
}

const kept = (days: number, gib: number): Retention => ({
  policy: 'delete',
  ms: days * DAY_MS,
  bytesPerPartition: gib * GIB,
})

/** Partitions of the topics that are keyed by provider. */
export const PROVIDER_PARTITIONS = 8
/** Partitions of the topics that are keyed by item. */
export const ITEM_PARTITIONS = 8

const CATALOG_READERS = [
  ...['book', 'sales', 'candles', 'history', 'live-view', 'market-summary', 'provisional-items'],
  ...['api', 'feed', 'ingest'],
] as const

const observations = [observationRejected, refreshCompleted, refreshFailed]

/** Every topic by a short name used in code. */
export const topics = {
  quotes: {
    name: 'market.quotes',
    key: 'provider',
    events: [askObserved, ...observations],
    partitions: PROVIDER_PARTITIONS,
    retention: kept(7, 8),
    writer: 'ingest',
    readers: ['book'],
  },
  bids: {
    name: 'market.bids',
    key: 'provider',
    events: [bidObserved, ...observations],
    partitions: PROVIDER_PARTITIONS,
    retention: kept(7, 4),
    writer: 'ingest',
    readers: ['book'],
  },
  sales: {
    name: 'market.sales',
    key: 'provider',
    events: [saleObserved, observationRejected, refreshFailed],
    partitions: 4,
    retention: kept(30, 4),
    writer: 'ingest',
    readers: ['sales', 'feed', 'market-summary'],
  },
  feeds: {
    name: 'market.feeds',
    key: 'side|provider',
    events: [feedAdvanced],
    partitions: 1,
    retention: { policy: 'compact' },
    writer: 'ingest',
    readers: ['ingest'],
  },
  bookChanges: {
    name: 'market.book-changes',
    key: 'item_id',
    events: [bookChanged, offerUrlChanged, refreshMarked],
    partitions: ITEM_PARTITIONS,
    retention: kept(35, 8),
    writer: 'book',
    readers: ['live-view', 'candles', 'history', 'feed', 'market-summary', 'movers', 'alert-triggers'],
  },
  book: {
    name: 'market.book',
    key: 'row|provider|item_id, withdrawn|provider|item_id, refresh|provider, position',
    events: [bookRowStored, bookRefreshStored, positionStored],
    partitions: 2 * PROVIDER_PARTITIONS,
    retention: { policy: 'compact' },
    writer: 'book',
    readers: ['book', 'live-view', 'market-summary', 'alert-triggers'],
  },
  refreshes: {
    name: 'market.refreshes',
    key: 'provider',
    events: [refreshJudged],
    partitions: 1,
    retention: kept(35, 1),
    writer: 'book',
    readers: ['provider-health', 'market-summary', 'movers'],
  },
  quarantine: {
    name: 'market.quarantine',
    key: 'provider',
    events: [refreshQuarantined],
    partitions: 1,
    retention: kept(35, 1),
    writer: 'book',
    readers: [],
  },
  unresolved: {
    name: 'market.unresolved',
    key: 'market_hash_name',
    events: [nameUnresolved],
    partitions: 1,
    retention: kept(7, 1),
    writer: 'runner',
    readers: ['provisional-items'],
  },
  deadLetters: {
    name: 'dead-letters',
    key: 'group',
    events: [deadLettered],
    partitions: 1,
    retention: kept(35, 1),
    writer: 'runner',
    readers: [],
  },
  catalog: {
    name: 'catalog.items',
    key: 'item_id, version',
    events: [catalogItemPublished, catalogVersionPublished],
    partitions: 1,
    retention: { policy: 'compact' },
    writer: 'setup',
    readers: CATALOG_READERS,
  },
  provisionalItems: {
    name: 'catalog.provisional',
    key: 'item_id',
    events: [catalogItemPublished],
    partitions: 1,
    retention: { policy: 'compact' },
    writer: 'provisional-items',
    readers: CATALOG_READERS,
  },
  sightings: {
    name: 'catalog.sightings',
    key: 'phase|name, position',
    events: [nameSighted, positionStored],
    partitions: 1,
    retention: { policy: 'compact' },
    writer: 'provisional-items',
    readers: ['provisional-items'],
  },
  fx: {
    name: 'market.fx',
    key: 'base',
    events: [fxRatesPublished],
    partitions: 1,
    retention: kept(3650, 1),
    writer: 'ingest',
    readers: ['fx', 'alert-triggers'],
  },
  alertRules: {
    name: 'accounts.alert-rules',
    // Partitioned by item, not by key: an instance that reads the changes of an item has all of its rules.
    key: 'alert_id',
    events: [alertRuleChanged],
    partitions: ITEM_PARTITIONS,
    retention: { policy: 'compact' },
    writer: 'alerts',
    readers: ['alert-triggers'],
  },
  alertsTriggered: {
    name: 'alerts.triggered',
    key: 'alert_id',
    events: [alertTriggered],
    partitions: ITEM_PARTITIONS,
    retention: kept(35, 1),
    writer: 'alert-triggers',
    readers: ['alerts'],
  },
  dayCloses: {
    name: 'market.day-closes',
    key: 'market_hash_name',
    events: [dayClosed],
    partitions: 4,
    retention: kept(3650, 4),
    writer: 'ingest',
    readers: ['history', 'candles'],
  },
} as const satisfies Record<string, TopicDefinition>

/** The short name of a topic. */
export type TopicKey = keyof typeof topics

/** Every topic, in the order of the catalogue. */
export const allTopics: readonly TopicDefinition[] = Object.values(topics)
