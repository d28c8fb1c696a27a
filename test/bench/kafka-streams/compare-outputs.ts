/**
 * Compares what the book and the Kafka Streams program wrote of the same input: changes, markers and verdicts.
 *
 * Order between refreshes of different providers is free, so a topic is compared by the number of its records and by a checksum that
 * does not depend on order. Invariant: equal checksums mean equal keys and bytes, source offsets included.
 */
import { crc32 } from 'node:zlib'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'

/** Topics whose records are compared. */
const COMPARED = ['bookChanges', 'refreshes'] as const satisfies readonly TopicKey[]

/** A writer's outputs: where they are, and from which offsets on. */
export interface WrittenOutputs {
  kafka: KafkaConnection
  from: Record<(typeof COMPARED)[number], number[]>
}

/** End offset of each partition of the compared topics. */
export async function endsOfOutputs(kafka: KafkaConnection): Promise<WrittenOutputs['from']> {
  const reader = await openRangeReader(
    kafka,
    COMPARED.map(key => kafka.topicName(key)),
  )
  try {
    const [bookChanges, refreshes] = await Promise.all(
      COMPARED.map(key =>
        Promise.all(
          Array.from({ length: topics[key].partitions }, (_, each) => reader.end(kafka.topicName(key), each)),
        ),
      ),
    )
    return { bookChanges: bookChanges ?? [], refreshes: refreshes ?? [] }
  } finally {
    await reader.close()
  }
}

/** Throws unless both wrote the same. */
export async function compareOutputs(book: WrittenOutputs, streams: WrittenOutputs): Promise<void> {
  for (const key of COMPARED) {
    const [ours, theirs] = [await contentOf(book, key), await contentOf(streams, key)]
    const { name } = topics[key]
    if (ours.records === 0) throw new Error(`book: there was nothing in ${name} to compare`)
    if (ours.records !== theirs.records)
      throw new Error(`book: Kafka Streams wrote ${theirs.records} records to ${name}, the book ${ours.records}`)
    if (ours.checksum !== theirs.checksum) throw new Error(`book: Kafka Streams wrote other records to ${name}`)
  }
}

async function contentOf({ kafka, from }: WrittenOutputs, key: (typeof COMPARED)[number]) {
  const topic = kafka.topicName(key)
  const reader = await openRangeReader(kafka, [topic])
  let records = 0
  let checksum = 0n
  let sum = 0
  try {
    for (const [partition, end] of (await endsOfOutputs(kafka))[key].entries()) {
      await reader.read({ topic, partition, from: from[key][partition] ?? 0, to: end }, record => {
        // The square distinguishes two records from two others of the same sum.
        const hash = crc32(record.value ?? '', crc32(record.key ?? ''))
        records += 1
        sum += hash
        checksum += BigInt(hash) * BigInt(hash)
      })
    }
  } finally {
    await reader.close()
  }
  return { records, checksum: checksum + (BigInt(sum) << 128n) }
}
