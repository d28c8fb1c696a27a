/**
 * The changes of one partition of market.book-changes, and the position of a view in it.
 *
 * Reads the log only. Memory holds one partition's changes at a time.
 */
import { committedOffsets } from '#infra/kafka/committed-offsets.ts'
import { decodeLearning } from '#infra/kafka/learning.ts'
import type { LogAccess } from '#infra/kafka/log-access.ts'
import { scanTopic } from '#infra/kafka/topic-scan.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { ITEM_PARTITIONS, type TopicKey, topics } from '#schemas/topics.ts'
import { partitionSql } from '../view.ts'

/** A change with its offset in its partition. */
export interface PlacedChange {
  offset: number
  change: BookChanged
}

/** A partition of the log beside a view of it. */
export interface PartitionLog {
  partition: number
  /** The first offset that the log still holds. */
  start: number
  /** The log was read up to here; rows may reflect later records. */
  end: number
  /** All changes below it are in the view. */
  committed: number
  changes: readonly PlacedChange[]
}

/** SQL: whether a row's item belongs to the partition that the parameter `partition` names. */
export const OF_PARTITION = `${partitionSql('toString(item_id)', ITEM_PARTITIONS)} = {partition:UInt32}`

/** Reads the partitions one after the other, each to its stable end of then. */
export async function* partitionLogs(access: LogAccess, group: string): AsyncGenerator<PartitionLog> {
  const committed = await positions(access, group, 'bookChanges')
  for (let partition = 0; partition < ITEM_PARTITIONS; partition++) {
    const topic = access.kafka.topicName('bookChanges')
    const start = await access.reader.start(topic, partition)
    const to = await access.reader.stableEnd(topic, partition)
    const changes = await readChanges(access, partition, { from: start, to })
    yield { partition, start, end: to, committed: committed[partition] ?? 0, changes }
  }
}

/** The committed offset of each partition. */
export async function positions({ kafka }: LogAccess, group: string, key: TopicKey): Promise<number[]> {
  const committed = await committedOffsets(kafka, group, key)
  return Array.from({ length: topics[key].partitions }, (_, partition) => committed.get(partition) ?? 0)
}

/** Reads the changes of a range. */
export async function readChanges(
  { kafka, reader }: LogAccess,
  partition: number,
  range: { from: number; to: number },
): Promise<PlacedChange[]> {
  const changes: PlacedChange[] = []
  for await (const page of scanTopic(reader, kafka.topicName('bookChanges'), new Map([[partition, range]]))) {
    for (const { offset, value } of page) {
      if (value === null) continue
      const decoded = await decodeLearning(kafka.codec, value)
      if (decoded.event === 'BookChanged') changes.push({ offset, change: decoded.value })
    }
  }
  return changes
}
