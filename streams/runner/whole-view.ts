/**
 * Restores a missing view in one step, before its slot is open: from the log's start to its present end.
 *
 * For views of a small topic that fit in memory. Applied record by record and written once, so that readers see no view or
 * the whole one, never a part of it. Dead letters were written when the role first read their records, and are not written
 * again. Reads the log, writes by the sink's own flush.
 */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import type { TopicKey } from '#schemas/topics.ts'
import { decodeNow, decodeSlowly, isDecoded } from './decoding.ts'
import type { PartitionSink } from './sink-runner.ts'

/** Takes all that a partition holds into an empty sink, and writes it; of an empty partition the position is written too. */
export async function readWhole(
  kafka: KafkaConnection,
  source: { topic: TopicKey; partition: number },
  sink: PartitionSink,
): Promise<void> {
  const topic = kafka.topicName(source.topic)
  const reader = await openRangeReader(kafka, [topic])
  try {
    const from = await reader.start(topic, source.partition)
    const to = await reader.stableEnd(topic, source.partition)
    await reader.read({ topic, partition: source.partition, from, to }, async ({ offset, key, value, timestamp }) => {
      const decoded = decodeNow(kafka.codec, value) ?? (await decodeSlowly(kafka.codec, value ?? Buffer.alloc(0)))
      if (!isDecoded(decoded)) return
      const raw = value ?? Buffer.alloc(0)
      sink.apply({ ...source, offset, key: key?.toString() ?? null, ...decoded, raw, appendedAt: timestamp })
    })
    await sink.flush(to)
  } finally {
    await reader.close()
  }
}
