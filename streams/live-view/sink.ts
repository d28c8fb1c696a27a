/**
 * Writes the live ask and bid table of one partition to Redis.
 *
 * Sole writer of `{live:<partition>}:*`. Each flush is one atomic write of the changed rows and the head,
 * which holds the position that they reflect, on the condition that the head is still as this owner left
 * it: table and position never disagree, and an owner that was paused while another took over
 * writes nothing. Writing the same batch twice leaves the same table.
 * States: no head → rebuilt by the opener before this sink exists; open → fenced (thrown, the runner opens it again) or closed.
 */
import { Fenced, writeGuarded } from '#infra/redis/guarded-write.ts'
import type { Redis } from '#infra/redis/redis.ts'
import { unstorable } from '#schemas/values/storable.ts'
import { OK } from '#streams/runner/outcome.ts'
import type { PartitionSink } from '#streams/runner/sink-runner.ts'
import type { PartitionSnapshots } from './snapshot-builder.ts'
import { emptyBatch, foldChange, foldMarker, headAfter } from './step.ts'
import { headKey, type LiveHead, type OwnedHead } from './table.ts'
import { touchedBy, touchedWrites, writesOf } from './writes.ts'

/** Reads a partition's head; undefined when there is none. */
export async function readHead(
  redis: Redis,
  { partition, prefix }: { partition: number; prefix: string },
): Promise<OwnedHead | undefined> {
  const text = await redis.get(headKey(partition, prefix))
  return text === null ? undefined : { head: JSON.parse(text) as LiveHead, text }
}

/** Replaces the head that is `expected` (null: none); throws {@link Fenced} when it is another. */
export async function writeHead(
  redis: Redis,
  table: { partition: number; prefix: string },
  expected: string | null,
  head: LiveHead,
): Promise<OwnedHead> {
  const text = JSON.stringify(head)
  await writeGuarded(redis, { guard: headKey(table.partition, table.prefix), expected, value: text, writes: [] })
  return { head, text }
}

/**
 * Opens the sink of a partition whose table is complete, on a connection that may be shared; `snapshots` carries
 * every flush out.
 */
export function openLiveSink(
  redis: Redis,
  table: { partition: number; prefix: string },
  found: OwnedHead,
  snapshots?: PartitionSnapshots,
): PartitionSink {
  const key = headKey(table.partition, table.prefix)
  let owned = found
  let batch = emptyBatch()
  const { topicId, next, until } = found.head
  return {
    position: { topicId, next, ...(until !== undefined && { until }) },
    apply({ event, value }) {
      if (event === 'RefreshMarked') {
        foldMarker(batch, value)
        return OK
      }
      if (event !== 'BookChanged' && event !== 'OfferUrlChanged') return { kind: 'skip', reason: 'other_event' }
      const fault = unstorable(value.item_id, value.seen_at)
      if (fault) return { kind: 'deadLetter', ...fault }
      foldChange(batch, value)
      return OK
    },
    async flush(position) {
      if (position.next < owned.head.next) throw new Fenced(key)
      const touched = touchedBy(batch)
      const write = async (): Promise<OwnedHead> => {
        const head = headAfter(owned.head, batch, position)
        const text = JSON.stringify(head)
        const rows = writesOf({ ...table, generation: head.generation }, batch)
        const writes = [...rows, ...touchedWrites(table, touched, position.next)]
        await writeGuarded(redis, { guard: key, expected: owned.text, value: text, writes })
        owned = { head, text }
        batch = emptyBatch()
        return owned
      }
      if (snapshots) await snapshots.flush(write, touched)
      else await write()
    },
    isCurrent: async () => (await redis.get(key)) === owned.text,
    close: async () => snapshots?.close(),
  }
}
