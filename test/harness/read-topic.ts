/** The order is that of the log, partition after partition; offsets and raw bytes let a second reader be compared with it. */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import type { JavaReader } from './java-reader.ts'
import type { LedgerEntry } from './ledger.ts'

export interface ReadRecord {
  partition: number
  offset: number
  key: string
  raw: Buffer | null
  /** When the log, or its writer, took it, in milliseconds since 1970. */
  timestamp: number
  /** Undefined for a tombstone. */
  event: string | undefined
  // biome-ignore lint/suspicious/noExplicitAny: the event's name decides the shape.
  value: any
}

export async function readTopic(kafka: KafkaConnection, topic: TopicKey): Promise<ReadRecord[]> {
  const name = kafka.topicName(topic)
  const reader = await openRangeReader(kafka, [name])
  const records: ReadRecord[] = []
  try {
    for (let partition = 0; partition < topics[topic].partitions; partition++) {
      const to = await reader.stableEnd(name, partition)
      for await (const page of reader.range(name, new Map([[partition, { from: 0, to }]]))) {
        for (const { offset, key, timestamp, value: raw } of page) {
          const position = { partition, offset, timestamp, key: String(key), raw }
          if (raw === null) records.push({ ...position, event: undefined, value: undefined })
          else records.push({ ...position, ...kafka.codec.decode(raw) })
        }
      }
    }
  } finally {
    await reader.close()
  }
  return records
}

/** The same reading as ledger entries: each offset once, with its key and bytes. */
export const entriesOfReading = (
  records: readonly { partition: number; offset: number; key: Buffer | string | null; raw: Buffer | null }[],
): LedgerEntry[] =>
  records.map(({ partition, offset, key, raw }) => ({
    key: String(partition),
    what: `${offset} ${key} ${raw === null ? '-' : raw.toString('base64')}`,
  }))

/** A topic as Kafka's own client reads it, as {@link entriesOfReading} writes it, and how many records were aborted. */
export async function readByJava(
  java: JavaReader,
  kafka: KafkaConnection,
  topic: TopicKey,
): Promise<{ entries: LedgerEntry[]; aborted: number }> {
  const name = kafka.topicName(topic)
  const committed = await java.read(kafka.brokers, name, 'read_committed', kafka.settings)
  const all = await java.read(kafka.brokers, name, 'read_uncommitted', kafka.settings)
  // One client's partitions come interleaved; within each the order is the log's.
  committed.sort((a, b) => a.partition - b.partition || a.offset - b.offset)
  return {
    entries: entriesOfReading(committed.map(record => ({ ...record, raw: record.value }))),
    aborted: all.length - committed.length,
  }
}
