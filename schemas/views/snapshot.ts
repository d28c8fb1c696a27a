/**
 * The Redis view that bulk snapshots are streamed from: segments, and the manifests that name them.
 *
 * A segment holds the NDJSON lines of one provider, side and partition as raw deflate in blocks, each block
 * ended by a full flush, so that concatenated segments are one deflate stream and a block inflates by
 * itself. Segments never change; a manifest names those of one moment of its partition's live table. All
 * keys share the partition's hash tag with that table. Sole writer: streams/live-view.
 */
import type { Side } from '../events/book-changed.ts'

/** What a manifest holds of one provider's segment. */
export interface SegmentEntry {
  /** Part of the segment's key; no two builds of a partition share one. */
  version: number
  lines: number
  /** Of the lines. */
  crc: number
  /** Newest `last_updated` among the lines. */
  updated: number
  /** Of each block: bytes of its lines, and bytes deflated. */
  blocks: [bytes: number, deflated: number][]
}

/** The segments of a partition, by side and provider; one without lines has none. */
export interface SnapshotManifest {
  /** Of the live table; a manifest of another generation is not to be read. */
  generation: number
  /** The moment that the segments reflect: the head's `next` when the rows were read. */
  next: number
  /** A hash of what lines are made of besides rows: another one makes all segments out of date. */
  form: string
  ask: Record<string, SegmentEntry>
  bid: Record<string, SegmentEntry>
}

/** Key of a partition's manifest, a JSON text of {@link SnapshotManifest}. */
export const manifestKey = (partition: number, prefix = ''): string => `${prefix}snapshot:{live:${partition}}:manifest`

/** Key of a segment. */
export const segmentKey = (partition: number, side: Side, provider: string, version: number, prefix = ''): string =>
  `${prefix}snapshot:{live:${partition}}:${side}:${provider}:${version}`

/** Key of the counter of versions. */
export const versionsKey = (partition: number, prefix = ''): string => `${prefix}snapshot:{live:${partition}}:versions`

/** Key of the hash {@link touchedField} → `next` after the last flush that touched it; written with the flush. */
export const touchedKey = (partition: number, prefix = ''): string => `${prefix}snapshot:{live:${partition}}:touched`

/** Names a side and provider in the hash at {@link touchedKey}. */
export const touchedField = (side: Side, provider: string): string => `${side}:${provider}`

/** Reads what {@link touchedField} wrote. */
export function readTouchedField(field: string): { side: Side; provider: string } {
  const colon = field.indexOf(':')
  return { side: field.slice(0, colon) as Side, provider: field.slice(colon + 1) }
}

/** How long a replaced segment stays, so that a stream that has pinned it can finish. */
export const REPLACED_SEGMENT_TTL_MS = 15 * 60_000

/** Bytes of a segment's lines. */
export const plainBytes = ({ blocks }: SegmentEntry): number => blocks.reduce((sum, [bytes]) => sum + bytes, 0)

/** Bytes of a segment as it is stored. */
export const storedBytes = ({ blocks }: SegmentEntry): number => blocks.reduce((sum, [, deflated]) => sum + deflated, 0)
