/**
 * Compares what the book and the Kafka Streams program wrote of the same input: changes, markers and verdicts.
 *
 * Order between refreshes of different providers is free, so a topic is compared by the number of its records of each
 * event and by a checksum that does not depend on order. Invariant: equal checksums mean equal keys and bytes, source
 * offsets included.
 */
import { crc32 } from 'node:zlib'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { decodeLearning } from '#infra/kafka/learning.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { readStretch } from '../read-stretch.ts'

/** Topics whose records are compared. */
const COMPARED = ['bookChanges', 'refreshes'] as const satisfies readonly TopicKey[]

/** A writer's outputs: where they are, and from which offsets on. */
export interface WrittenOutputs {
  kafka: KafkaConnection
  from: Record<(typeof COMPARED)[number], number[]>
}

/** What a topic holds. */
interface Content {
  /** Records of each event. */
  counts: Record<string, number>
  checksum: bigint
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

/** Throws unless both wrote the same; returns the number of changes. */
export async function compareOutputs(book: WrittenOutputs, streams: WrittenOutputs): Promise<number> {
  let changes = 0
  for (const key of COMPARED) {
    const [ours, theirs] = [await contentOf(book, key), await contentOf(streams, key)]
    const [our, their] = [JSON.stringify(ours.counts), JSON.stringify(theirs.counts)]
    const { name } = topics[key]
    if (our !== their) throw new Error(`book: Kafka Streams wrote ${their} to ${name}, the book ${our}`)
    if (ours.checksum !== theirs.checksum) throw new Error(`book: Kafka Streams wrote other records to ${name}`)
    changes += ours.counts.BookChanged ?? 0
  }
  if (changes === 0) throw new Error('book: there were no changes to compare')
  return changes
}

async function contentOf({ kafka, from }: WrittenOutputs, key: (typeof COMPARED)[number]): Promise<Content> {
  const topic = kafka.topicName(key)
  const reader = await openRangeReader(kafka, [topic])
  const byId = new Map<number, { sample: Buffer; count: number }>()
  let checksum = 0n
  let part = 0
  try {
    const to = (await endsOfOutputs(kafka))[key]
    await readStretch(reader, topic, { from: from[key], to }, record => {
      const value = record.value ?? Buffer.alloc(0)
      const id = value.readInt32BE(1)
      const seen = byId.get(id)
      if (seen) seen.count += 1
      else byId.set(id, { sample: value, count: 1 })
      // The square distinguishes two records from two others of the same sum.
      const hash = crc32(value, crc32(record.key ?? ''))
      part += hash
      checksum += BigInt(hash) * BigInt(hash)
    })
  } finally {
    await reader.close()
  }
  const named = await Promise.all(
    [...byId.values()].map(
      async ({ sample, count }) => [(await decodeLearning(kafka.codec, sample)).event, count] as const,
    ),
  )
  const counts = Object.fromEntries(named.sort(([one], [other]) => one.localeCompare(other)))
  return { counts, checksum: checksum + (BigInt(part) << 128n) }
}
