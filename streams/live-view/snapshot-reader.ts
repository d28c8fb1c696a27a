/**
 * Pins snapshots: the stored segments that make up all live asks or bids at one moment per partition.
 *
 * What is pinned stays readable for minutes after it was replaced. A partition whose manifest is missing, or of a
 * table that did not lead to the one its head names, in a form of another version, or older than one that was pinned before, since Redis was
 * set back, makes the whole snapshot unavailable.
 */
import { createHash } from 'node:crypto'
import { promisify } from 'node:util'
import { constants, inflateRaw } from 'node:zlib'
import type { Redis } from '#infra/redis/redis.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { isSetBack } from '#streams/runner/positions.ts'
import {
  headKey,
  type LiveHead,
  manifestKey,
  PARTITIONS,
  parseHead,
  parseManifest,
  type SegmentEntry,
  type SnapshotManifest,
  segmentKey,
} from './table.ts'

export interface PinnedSegment {
  key: string
  entry: SegmentEntry
}

/** A snapshot that does not change. Order of lines: provider, partition, item id. */
export interface PinnedSnapshot {
  segments: readonly PinnedSegment[]
  lines: number
  /** Newest `last_updated` of its lines; undefined when there are none. */
  updatedAt: number | undefined
  /** Identifies its content: two snapshots of equal name are equal line by line. */
  name: string
}

const inflate = promisify(inflateRaw)

export function openSnapshotReader(redis: Redis, prefix: string) {
  const newest: PartitionSnapshot[] = []
  const segmentsOf = (manifests: readonly SnapshotManifest[], side: Side, provider: string): PinnedSegment[] =>
    manifests.flatMap((manifest, partition) => {
      const entry = manifest[side][provider]
      return entry ? [{ key: segmentKey(partition, side, provider, entry.version, prefix), entry }] : []
    })
  return {
    /** Pins what some providers list now; for minutes after a rebuild it may be the snapshot of the table before. */
    async pinSnapshot(side: Side, providers: readonly string[]): Promise<PinnedSnapshot> {
      const manifests = await readManifests({ redis, prefix, newest }, isUsable)
      const segments = providers.flatMap(provider => segmentsOf(manifests, side, provider))
      const content = createHash('sha256')
      let lines = 0
      let updatedAt: number | undefined
      for (const { entry } of segments) {
        content.update(`${entry.version} ${entry.crc} ${entry.blocks.join(' ')}\n`)
        lines += entry.lines
        updatedAt = Math.max(updatedAt ?? 0, entry.updated)
      }
      return { segments, lines, updatedAt, name: content.digest('base64url') }
    },
    /** Pins what some providers list in the table that is read now; rejects where that reflects another topic than the one of an id. */
    async pinPositioned(side: Side, providers: readonly string[], topicId: string) {
      const manifests = await readManifests(
        { redis, prefix, newest },
        (manifest, head) => manifest.tableVersion === head.version && head.topicId === topicId,
      )
      const segments = providers.flatMap(provider =>
        segmentsOf(manifests, side, provider).map(segment => ({ ...segment, provider })),
      )
      return { segments, next: manifests.map(({ next }) => next) }
    },
    async readSegment({ key }: PinnedSegment): Promise<string> {
      const stored = await redis.getBuffer(key)
      if (!stored) throw new Error('a segment of a pinned snapshot is gone')
      // Segments end with a full flush, not with a final block.
      return (await inflate(stored, { finishFlush: constants.Z_SYNC_FLUSH })).toString()
    },
  }
}

/** Whether a snapshot is of the table that a head names, or of one that a rebuild has replaced by it. */
const isUsable = (manifest: SnapshotManifest, { version, succeeds = version }: LiveHead): boolean =>
  manifest.tableVersion >= succeeds && manifest.tableVersion <= version

interface PartitionSnapshot extends Pick<SnapshotManifest, 'tableVersion' | 'next'> {
  topicId: string
}

/** The manifest of each partition; rejects when one has none that may be read. */
async function readManifests(
  { redis, prefix, newest }: { redis: Redis; prefix: string; newest: PartitionSnapshot[] },
  mayBeRead: (manifest: SnapshotManifest, head: LiveHead) => boolean,
): Promise<SnapshotManifest[]> {
  // While the client reconnects, requests would wait.
  if (redis.status !== 'ready') throw new Error('Redis does not answer')
  const texts = await Promise.all(
    PARTITIONS.map(partition => redis.mget(headKey(partition, prefix), manifestKey(partition, prefix))),
  )
  return texts.map(([head, text], partition) => {
    if (!head || !text) throw new Error(`partition ${partition} has no live view`)
    const manifest = parseManifest(text)
    const table = parseHead(head)
    if (!mayBeRead(manifest, table)) throw new Error(`partition ${partition} has a live view without its snapshot`)
    const current = { topicId: table.topicId, tableVersion: manifest.tableVersion, next: manifest.next }
    const pinned = newest[partition]
    if (pinned?.tableVersion === current.tableVersion && isSetBack(pinned, current))
      throw new Error(`partition ${partition} has a snapshot of ${current.next}, and had one of ${pinned.next}`)
    newest[partition] = current
    return manifest
  })
}
