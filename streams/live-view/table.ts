/**
 * The live view in Redis: the keys and rows of its tables, and of the snapshots that are stored of them.
 *
 * All keys of one partition share the hash tag `{live:<partition>}`, so they live in one Redis Cluster slot and one atomic write
 * may hold them all. Rows and listings are keys of a version (streams/runner/redis-versions.ts), and the head names the one to
 * read. A snapshot's segment holds the NDJSON lines of one provider, side and partition as raw deflate in blocks, each ended by a
 * full flush, so that joined segments are one deflate stream and a block inflates by itself. Segments never change; a manifest
 * names those of one moment. Head and manifest name the form that all below them is in, so that rows need none; an owner that
 * writes another form builds its own. Sole writers: the runner with fold.ts, snapshot-store.ts.
 */
import type { Side } from '#schemas/events/book-changed.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import { parseStored } from '#schemas/values/stored-format.ts'
import { incompleteness } from '#streams/runner/positions.ts'
import type { RedisVersion, ViewHead } from '#streams/runner/view.ts'

export interface LiveRow {
  /** Hundredths of `currency`. */
  price: number
  currency: string
  priceMicroUsd: number
  quantity: number
  /** When price or quantity last changed. */
  seenAt: number
  url: string | null
}

/** Its absence means that the view is not there, not that it is empty. */
export interface LiveHead extends ViewHead {
  /** Provider → when it was last refreshed. */
  ask: Record<string, number>
  bid: Record<string, number>
  /** The oldest of the versions before it that each followed a whole one: a snapshot of any since then may be read until there is a new one. */
  succeeds?: number
}

/**
 * The form in which this process writes a version. With a higher one the decoder of rows of the form before stays, and
 * {@link parseHead} names it.
 */
export const LIVE_FORMAT = 2

export function parseHead(text: string): LiveHead {
  const head: LiveHead = parseStored('the live table', text, { [LIVE_FORMAT]: stored => stored })
  const lack = incompleteness(head)
  if (lack !== undefined) throw new Error(`the live table may not be read: ${lack}`)
  return head
}

export const liveRoot = (partition: number | '*', prefix = ''): string => `${prefix}{live:${partition}}`

export const headKey = (partition: number, prefix = ''): string => `${liveRoot(partition, prefix)}:head`

export type TableId = Pick<RedisVersion, 'partition' | 'version' | 'prefix'>

/** Key of an item's hash: provider → row. */
export const itemKey = (partition: number, version: number, side: Side, itemId: number, prefix = ''): string =>
  `${liveRoot(partition, prefix)}:${version}:${side}:item:${itemId}`

/** Key of a provider's sorted set of item ids (score = id): listing order, counts and paging. */
export const listingKey = (partition: number, version: number, side: Side, provider: string, prefix = ''): string =>
  `${liveRoot(partition, prefix)}:${version}:${side}:list:${provider}`

export const PARTITIONS = Array.from({ length: ITEM_PARTITIONS }, (_, partition) => partition)

/** Separates rows that a script joins; no row can hold it. */
export const SEPARATOR = '\0'

/** Writes a row as text; most stay below the 64 bytes up to which Redis packs small hashes. */
export function encodeRow(row: LiveRow): string {
  const text = `${row.price}|${row.priceMicroUsd}|${row.quantity}|${row.seenAt}|${row.currency}`
  return row.url === null ? text : `${text}|${row.url}`
}

/** Reads what {@link encodeRow} wrote; throws on anything else, since only one writer exists. */
export function decodeRow(text: string): LiveRow {
  const [price, micro, quantity, seenAt, currency, ...url] = text.split('|')
  if (currency === undefined) throw new Error(`not a live row: ${text}`)
  return {
    price: Number(price),
    currency,
    priceMicroUsd: Number(micro),
    quantity: Number(quantity),
    seenAt: Number(seenAt),
    url: url.length > 0 ? url.join('|') : null,
  }
}

export interface SegmentEntry {
  /** Part of the segment's key; no two builds of a partition share one. */
  version: number
  lines: number
  crc: number
  /** Newest `last_updated` among the lines. */
  updated: number
  /** Of each block: bytes of its lines, and bytes deflated. */
  blocks: [bytes: number, deflated: number][]
}

/** The segments of a partition, by side and provider; one without lines has none. */
export interface SnapshotManifest {
  /** Of the segments and of itself: {@link SNAPSHOT_FORMAT} of its writer. */
  format?: number
  /** Of the live table; a manifest of another one is not to be read. */
  tableVersion: number
  /** The moment that the segments reflect: the head's `next` when the rows were read. */
  next: number
  /** A hash of what lines are made of besides rows: another one makes all segments out of date. */
  form: string
  ask: Record<string, SegmentEntry>
  bid: Record<string, SegmentEntry>
}

/** The form in which this version writes a manifest and its segments. In all forms `ask` and `bid` name segments by `version`. */
export const SNAPSHOT_FORMAT = 2

export const parseManifest = (text: string): SnapshotManifest =>
  parseStored('the snapshot of the live table', text, { [SNAPSHOT_FORMAT]: manifest => manifest })

/** Key of a partition's manifest, a JSON text of {@link SnapshotManifest}. */
export const manifestKey = (partition: number, prefix = ''): string => `${prefix}snapshot:{live:${partition}}:manifest`

export const segmentKey = (partition: number, side: Side, provider: string, version: number, prefix = ''): string =>
  `${prefix}snapshot:{live:${partition}}:${side}:${provider}:${version}`

export const versionsKey = (partition: number, prefix = ''): string => `${prefix}snapshot:{live:${partition}}:versions`

/** Key of the hash {@link touchedField} → `next` after the last flush that touched it; written with the flush. */
export const touchedKey = (partition: number, prefix = ''): string => `${prefix}snapshot:{live:${partition}}:touched`

export const touchedField = (side: Side, provider: string): string => `${side}:${provider}`

export function readTouchedField(field: string): { side: Side; provider: string } {
  const colon = field.indexOf(':')
  return { side: field.slice(0, colon) as Side, provider: field.slice(colon + 1) }
}

/** How long a replaced segment stays, so that a stream that has pinned it can finish. */
export const REPLACED_SEGMENT_TTL_MS = 15 * MINUTE_MS

export const plainBytes = ({ blocks }: SegmentEntry): number => blocks.reduce((sum, [bytes]) => sum + bytes, 0)

export const storedBytes = ({ blocks }: SegmentEntry): number => blocks.reduce((sum, [, deflated]) => sum + deflated, 0)
