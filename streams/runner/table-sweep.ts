/**
 * Takes a stretch of a view's topics through its own sinks into tables.
 *
 * Shares every line that decides with the role: the sinks, the decoding, the batcher. Dead letters were written when the role
 * read their records, and are not written again. Invariant: it resolves when ClickHouse has confirmed all of it.
 */
import { openBatcher } from '#infra/clickhouse/batcher.ts'
import type { ClickhouseWriter } from '#infra/clickhouse/clickhouse.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { RangeReader } from '#infra/kafka/range-reader.ts'
import { type ScannedRecord, scanTopic } from '#infra/kafka/topic-scan.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { decodeNow, decodeSlowly, isDecoded } from './decoding.ts'
import { mergeVersion, type Source } from './positions.ts'
import type { RowSink } from './sink-runner.ts'
import type { TableView } from './view.ts'

/** Next offset of each partition, by topic. */
export type Reached = Partial<Record<TopicKey, number[]>>

/** What a sweep works with. */
export interface SweepParts {
  view: TableView
  kafka: KafkaConnection
  reader: RangeReader
  writer: ClickhouseWriter
  metrics: Metrics
  /** How many topics of the name the view has read before the one that is there now. */
  generationOf(source: Source): number
  catalog: () => Promise<CatalogReader>
}

const LULL_MS = 100

/** Reads from where each topic was reached to its stable end of now; resolves with the new reach and the records taken. */
export async function sweep(
  parts: SweepParts,
  from: Reached,
  onProgress: (records: number) => void = () => undefined,
): Promise<{ reached: Reached; records: number }> {
  const { view, kafka, reader, writer, metrics } = parts
  const batcher = openBatcher(writer, { metrics, longestWaitMs: LULL_MS })
  const reached: Reached = {}
  let records = 0
  try {
    for (const key of view.topics) {
      const topic = kafka.topicName(key)
      const partitions = Array.from({ length: topics[key].partitions }, (_, partition) => partition)
      const ends = await Promise.all(partitions.map(partition => reader.stableEnd(topic, partition)))
      const sinks = await Promise.all(partitions.map(() => view.open(key, batcher, parts.catalog)))
      const ranges = new Map(ends.map((to, partition) => [partition, { from: from[key]?.[partition] ?? 0, to }]))
      for await (const page of scanTopic(reader, topic, ranges)) {
        await takePage(parts, key, page, sinks)
        records += page.length
        onProgress(records)
      }
      await Promise.all(sinks.map(sink => sink.close()))
      reached[key] = ends
    }
  } finally {
    await batcher.close()
  }
  return { reached, records }
}

async function takePage(
  { kafka: { codec }, generationOf }: SweepParts,
  topic: TopicKey,
  page: readonly ScannedRecord[],
  sinks: readonly RowSink[],
): Promise<void> {
  const taken = new Set(page.map(record => record.partition))
  for (const partition of taken) await sinks[partition]?.prepare?.()
  for (const { partition, offset, key, value, timestamp } of page) {
    if (value === null) continue
    const decoded = decodeNow(codec, value) ?? (await decodeSlowly(codec, value))
    if (!isDecoded(decoded)) continue
    const source = { topic, partition, offset, key: key?.toString() ?? null, raw: value, appendedAt: timestamp }
    const version = mergeVersion({ generation: generationOf({ topic, partition }) }, offset)
    const outcome = sinks[partition]?.apply({ ...source, ...decoded, version })
    if (outcome?.kind === 'retry') throw new Error(`${topic}-${partition}@${offset} cannot be taken yet`)
  }
  await Promise.all([...taken].map(partition => sinks[partition]?.flush()))
}
