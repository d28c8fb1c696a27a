/**
 * The changes of one partition of market.book-changes, and the position of a view in it.
 *
 * Reads the log only. Memory holds one partition's changes at a time.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { decodeLearning } from '#infra/kafka/learning.ts'
import type { LogAccess } from '#infra/kafka/log-access.ts'
import { scanTopic } from '#infra/kafka/topic-scan.ts'
import type { BookChanged, OfferUrlChanged } from '#schemas/events/book-changed.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { mergeVersion, type Source, type ViewPosition } from '../positions.ts'
import { positionOf, readStoredViews } from '../table-versions.ts'
import { partitionSql } from '../view.ts'

/** A change of a row, or of its URL alone, with its offset in its partition. */
export interface PlacedChange {
  offset: number
  change: BookChanged | OfferUrlChanged
}

/** A change with the version by which rows that rest on it merge. */
export interface VersionedChange {
  version: number
  change: BookChanged
}

/** A partition of the log beside a view of it in ClickHouse, in versions. */
export interface PartitionLog {
  partition: number
  /** That of the first record that the log still holds. */
  start: number
  /** The log was read up to here; rows may reflect later records. */
  end: number
  /** All changes below it are in the view. */
  reached: number
  changes: readonly VersionedChange[]
}

/** SQL: whether a row's item belongs to the partition that the parameter `partition` names. */
export const OF_PARTITION = `${partitionSql('toString(item_id)', ITEM_PARTITIONS)} = {partition:UInt32}`

/** Reads the partitions one after the other, each to its stable end of then. */
export async function* partitionLogs(
  access: LogAccess,
  tables: ClickhouseReader,
  view: string,
): AsyncGenerator<PartitionLog> {
  for (let partition = 0; partition < ITEM_PARTITIONS; partition++) {
    const topic = access.kafka.topicName('bookChanges')
    const position = await viewPosition(tables, view, { topic: 'bookChanges', partition })
    const versionOf = (offset: number): number => mergeVersion(position, offset)
    const start = await access.reader.start(topic, partition)
    const to = await access.reader.stableEnd(topic, partition)
    const changes = await readChanges(access, partition, { from: start, to })
    yield {
      partition,
      ...{ start: versionOf(start), end: versionOf(to), reached: versionOf(position.next) },
      changes: changes.flatMap(({ offset, change }) =>
        'change' in change ? [{ version: versionOf(offset), change }] : [],
      ),
    }
  }
}

/** What a view in ClickHouse reflects of a partition. */
export async function viewPosition(tables: ClickhouseReader, view: string, source: Source): Promise<ViewPosition> {
  const stored = positionOf((await readStoredViews(tables)).of(view), source)
  if (stored === undefined) throw new Error(`${view} has no position in ${source.topic}-${source.partition}`)
  return stored.position
}

/** Reads the changes of a range, those of URLs too. */
export async function readChanges(
  { kafka, reader }: LogAccess,
  partition: number,
  range: { from: number; to: number },
): Promise<PlacedChange[]> {
  const changes: PlacedChange[] = []
  for await (const page of scanTopic(reader, kafka.topicName('bookChanges'), new Map([[partition, range]]))) {
    for (const { offset, value } of page) {
      if (value === null) continue
      const { event, value: change } = await decodeLearning(kafka.codec, value)
      if (event === 'BookChanged' || event === 'OfferUrlChanged') changes.push({ offset, change })
    }
  }
  return changes
}
