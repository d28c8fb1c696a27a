/**
 * Reads a stretch of a topic from offset to offset, all partitions together, the next fetch under way while one is handled.
 *
 * Reads committed records without a group, so a measurement holds fetching and handling alone: no join, no assignment, no
 * commit, and metadata only once, when the reader was opened.
 */
import type { LogRecord, RangeReader } from '#infra/kafka/range-reader.ts'

/** Offsets by partition: the first, and the one after the last. */
export interface OffsetStretch {
  from: number[]
  to: number[]
}

const WAIT_MS = 100

/** Hands every record of a stretch over; returns how many there were. */
export async function readStretch(
  reader: RangeReader,
  topic: string,
  { from, to }: OffsetStretch,
  handle: (record: LogRecord) => void,
): Promise<number> {
  const next = new Map(
    to.flatMap((end, partition) => ((from[partition] ?? 0) < end ? [[partition, from[partition] ?? 0]] : [])),
  )
  let count = 0
  let fetching = next.size > 0 ? reader.fetch(topic, next, WAIT_MS) : undefined
  while (fetching !== undefined) {
    const fetched = await fetching
    for (const [partition, position] of next) if (position >= (to[partition] ?? 0)) next.delete(partition)
    fetching = next.size > 0 ? reader.fetch(topic, next, WAIT_MS) : undefined
    for (const { partition, records } of fetched) {
      const end = to[partition] ?? 0
      for (const record of records) {
        if (record.offset >= end) break
        handle(record)
        count += 1
      }
    }
  }
  return count
}
