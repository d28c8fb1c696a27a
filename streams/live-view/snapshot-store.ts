/**
 * Reads and publishes the manifest of a partition, and stores the segments that it names.
 *
 * Sole writer of `snapshot:{live:<partition>}:*` but for the notes that flushes leave (snapshot-builder.ts). Segments are stored
 * with an expiry first; publishing lifts it and gives one to those that are replaced, in one step and only while
 * head and manifest are as this owner knows them. So a killed builder leaves nothing, a fenced one publishes
 * nothing, and what a stream has pinned stays until it can be done.
 */
import { nextVersion, writeGuarded, writesOfNames } from '#infra/redis/guarded-write.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import {
  headKey,
  manifestKey,
  REPLACED_SEGMENT_TTL_MS,
  type SnapshotManifest,
  segmentKey,
  touchedKey,
  versionsKey,
} from './table.ts'

export interface KnownManifest {
  manifest: SnapshotManifest
  text: string
}

export type SnapshotStore = ReturnType<typeof openSnapshotStore>

const SIDES: readonly Side[] = ['ask', 'bid']

export function openSnapshotStore(redis: Redis, { partition, prefix }: { partition: number; prefix: string }) {
  const key = manifestKey(partition, prefix)
  const segmentsOf = (manifest: SnapshotManifest): string[] =>
    SIDES.flatMap(side =>
      Object.entries(manifest[side]).map(([provider, { version }]) =>
        segmentKey(partition, side, provider, version, prefix),
      ),
    )
  return {
    async read() {
      const [head = null, text = null] = await redis.mget(headKey(partition, prefix), key)
      const notes = Object.entries(await redis.hgetall(touchedKey(partition, prefix)))
      return {
        head,
        manifest: text === null ? undefined : { manifest: JSON.parse(text) as SnapshotManifest, text },
        /** Side and provider → `next` after the last flush that touched them. */
        touched: new Map(notes.map(([field, next]) => [field, Number(next)])),
      }
    },
    /** A number that no build of this partition had, one whose trace a failover has lost included. */
    nextVersion: () => nextVersion(redis, versionsKey(partition, prefix)),
    async storeSegment(side: Side, provider: string, version: number, bytes: Buffer): Promise<void> {
      await redis.set(segmentKey(partition, side, provider, version, prefix), bytes, 'PX', REPLACED_SEGMENT_TTL_MS)
    },
    /** Puts a manifest in place of the known one; undefined when head or manifest are not as known. */
    async publish(
      next: SnapshotManifest,
      known: KnownManifest | undefined,
      expectedHead: string,
    ): Promise<KnownManifest | undefined> {
      const before = new Set(known ? segmentsOf(known.manifest) : [])
      const after = new Set(segmentsOf(next))
      const text = JSON.stringify(next)
      const { guards, writes } = writesOfNames(key, text, {
        named: [...after].filter(each => !before.has(each)),
        replaced: [...before].filter(each => !after.has(each)),
        replacedTtlMs: REPLACED_SEGMENT_TTL_MS,
      })
      const expected = [
        { key: headKey(partition, prefix), expected: expectedHead },
        { key, expected: known?.text ?? null },
      ]
      const isPublished = await writeGuarded(redis, { guards: [...expected, ...guards], writes })
      return isPublished ? { manifest: next, text } : undefined
    },
  }
}
