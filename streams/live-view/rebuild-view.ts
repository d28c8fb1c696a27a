/**
 * Rebuilds the live tables beside those that are read, and switches each partition to its new one.
 *
 * Runs outside of the role, which goes on. A partition's switch is a compare-and-set of its head: the role's next flush finds
 * another head than its own, opens the partition again and resumes from there. Readers accept rows of the head's generation
 * alone, so they see the old table or the new one. While a rebuild holds its lease, the role deletes none of its rows; a rebuild
 * that was paused beyond its lease switches nothing. Invariant: a switched table reflects no less of the log than the one before
 * it; a kill leaves the old table, and rows that the next rebuild deletes.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { connectKafka } from '#infra/kafka/connection.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { openTopicIds } from '#infra/kafka/topic-ids.ts'
import { publishGuarded } from '#infra/redis/guarded-publish.ts'
import { holdWithin, type Lease, openLease } from '#infra/redis/lease.ts'
import { closeRedis, openRedis, type Redis } from '#infra/redis/redis.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { openRebuilder, type Rebuilder } from './rebuild.ts'
import { readHead } from './sink.ts'
import { headKey, type LiveHead, rebuildKey } from './table.ts'

/** A partition that was switched. */
interface SwitchedPartition {
  partition: number
  generation: number
  next: number
}

const LEASE_MS = 10_000
const RENEW_EVERY_MS = 2_500
const SWITCH_TRIES = 200
const SWITCH_PAUSE_MS = 10

/** Rebuilds all partitions; rejects when another rebuild goes on or overtakes it. */
export async function rebuildLiveView(
  config: PlatformConfig,
  log: Log,
  onProgress: (step: string) => void,
): Promise<SwitchedPartition[]> {
  const prefix = config.namespace
  const kafka = connectKafka({ config, role: 'rebuild', log })
  const reader = await openRangeReader(kafka, [kafka.topicName('bookChanges'), kafka.topicName('book')])
  const ids = openTopicIds(kafka)
  const redis = await openRedis(config, { name: `${prefix}rebuild`, log })
  const partitions = Array.from({ length: ITEM_PARTITIONS }, (_, partition) => partition)
  const leases = partitions.map(partition => openLease(redis, rebuildKey(partition, prefix), LEASE_MS))
  const renew = setInterval(
    () => void Promise.all(leases.map(lease => lease.hold())).catch(() => undefined),
    RENEW_EVERY_MS,
  )
  try {
    for (const lease of leases) {
      // A rebuild that was killed keeps its leases until they expire.
      if (!(await holdWithin(lease, LEASE_MS + RENEW_EVERY_MS))) throw new Error('another rebuild of it goes on')
    }
    const rebuilder = openRebuilder({ kafka, reader, ids, redis, prefix })
    onProgress('filling the new tables')
    const heads = await Promise.all(partitions.map(partition => rebuilder.rebuild(partition)))
    onProgress('switching')
    const switched: SwitchedPartition[] = []
    for (const [partition, head] of heads.entries()) {
      const table = { partition, prefix }
      const { generation, next } = await switchPartition(redis, table, leases[partition] as Lease, rebuilder, head)
      switched.push({ partition, generation, next })
    }
    return switched
  } finally {
    clearInterval(renew)
    for (const lease of leases) await lease.release().catch(() => undefined)
    await closeRedis(redis)
    await ids.close()
    await reader.close()
  }
}

/** Tries until the head is as it was read and reflects no more than the new table does. */
async function switchPartition(
  redis: Redis,
  table: { partition: number; prefix: string },
  lease: Lease,
  rebuilder: Rebuilder,
  filled: LiveHead,
): Promise<LiveHead> {
  const key = headKey(table.partition, table.prefix)
  let head = filled
  for (let tries = 0; tries < SWITCH_TRIES; tries++) {
    const found = await readHead(redis, table)
    if (found && found.head.generation > head.generation) break
    if (found && found.head.next > head.next) head = await rebuilder.catchUp(table.partition, head)
    // Kept over rebuilds in a row, which may be faster than the builder of snapshots.
    const next: LiveHead = found ? { ...head, succeeds: found.head.succeeds ?? found.head.generation } : head
    const guards = [
      { key, expected: found?.text ?? null },
      { key: lease.key, expected: lease.token },
    ]
    const text = JSON.stringify(next)
    if (await publishGuarded(redis, { guards, key, text, named: [], replaced: [], replacedTtlMs: 0 })) return next
    await pause(SWITCH_PAUSE_MS)
  }
  throw new Error(`partition ${table.partition} was rebuilt by its role meanwhile, or its head never rested`)
}
