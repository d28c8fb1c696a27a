/**
 * Pins a bulk snapshot: the stored segments that make up all live asks or bids at one moment per partition.
 *
 * Reads the manifests of streams/live-view (schemas/views/snapshot.ts) and writes nothing. Invariant: what is pinned stays
 * readable for minutes after it was replaced; a partition whose manifest is missing, or of a table that
 * did not lead to the one its head names, makes the whole snapshot unavailable. Order of lines: provider, partition, item id.
 */
import { createHash } from 'node:crypto'
import { HttpError } from '#infra/http/http-error.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { ErrorCode } from '#schemas/api/error.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { headKey, type LiveHead } from '#schemas/views/live-keys.ts'
import { manifestKey, type SegmentEntry, type SnapshotManifest, segmentKey } from '#schemas/views/snapshot.ts'

/** A segment of a snapshot. */
export interface PinnedSegment {
  /** Its key in Redis. */
  key: string
  entry: SegmentEntry
}

/** A snapshot that does not change. */
export interface PinnedSnapshot {
  segments: readonly PinnedSegment[]
  lines: number
  /** Newest `last_updated` of its lines; undefined when there are none. */
  updatedAt: number | undefined
  /** Identifies its content: two snapshots of equal name are equal line by line. */
  name: string
}

const PARTITIONS = Array.from({ length: ITEM_PARTITIONS }, (_, partition) => partition)

const UNAVAILABLE: Record<Side, { code: ErrorCode; detail: string }> = {
  ask: { code: 'PRICES_INDEX_UNAVAILABLE', detail: 'The snapshot of live prices is temporarily unavailable.' },
  bid: { code: 'BIDS_INDEX_UNAVAILABLE', detail: 'The snapshot of live bids is temporarily unavailable.' },
}

/** The 503 of a side. */
export const snapshotUnavailable = (side: Side, cause?: unknown): HttpError =>
  new HttpError(UNAVAILABLE[side].code, UNAVAILABLE[side].detail, { cause })

/** Pins what some providers list now; throws the 503 when it cannot be read. */
export async function pinSnapshot(
  { redis, prefix }: { redis: Redis; prefix: string },
  side: Side,
  providers: readonly string[],
): Promise<PinnedSnapshot> {
  const manifests = await readManifests(redis, prefix).catch(cause => {
    throw snapshotUnavailable(side, cause)
  })
  const segments: PinnedSegment[] = []
  const content = createHash('sha256')
  let lines = 0
  let updatedAt: number | undefined
  for (const provider of providers) {
    for (const partition of PARTITIONS) {
      const manifest = manifests[partition]
      if (!manifest) throw snapshotUnavailable(side)
      const entry = manifest[side][provider]
      if (!entry) continue
      segments.push({ key: segmentKey(partition, side, provider, entry.version, prefix), entry })
      content.update(`${entry.version} ${entry.crc} ${entry.blocks.join(' ')}\n`)
      lines += entry.lines
      updatedAt = Math.max(updatedAt ?? 0, entry.updated)
    }
  }
  return { segments, lines, updatedAt, name: content.digest('base64url') }
}

/** The manifest of each partition; undefined for one that has none of its table. */
async function readManifests(redis: Redis, prefix: string): Promise<(SnapshotManifest | undefined)[]> {
  // While the client reconnects, requests would wait.
  if (redis.status !== 'ready') throw new Error('Redis does not answer')
  const texts = await Promise.all(
    PARTITIONS.map(partition => redis.mget(headKey(partition, prefix), manifestKey(partition, prefix))),
  )
  return texts.map(([head, text]) => {
    if (!head || !text) return undefined
    const manifest = JSON.parse(text) as SnapshotManifest
    const { generation, succeeds = generation } = JSON.parse(head) as LiveHead
    return manifest.generation >= succeeds && manifest.generation <= generation ? manifest : undefined
  })
}
