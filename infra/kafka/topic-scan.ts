/**
 * Reads several partitions of a topic side by side, page by page, between fixed offsets.
 *
 * For tools that go through much of the log: nothing is kept beyond one fetch. Reads committed records only, in order
 * per partition. Invariant: it ends exactly when every partition has reached its end, whatever compaction or
 * transactions have emptied; without any progress for two minutes it gives up and says where.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { LogRecord, RangeReader } from './range-reader.ts'

/** A record with its partition. */
export interface ScannedRecord extends LogRecord {
  partition: number
}

/** Offsets of one partition, half-open. */
export interface OffsetRange {
  from: number
  to: number
}

const STUCK_MS = 120_000
const FETCH_WAIT_MS = 100
const HELD_BACK_MS = 20

/** The records of the ranges, in pages as they were fetched. */
export async function* scanTopic(
  reader: RangeReader,
  topic: string,
  ranges: ReadonlyMap<number, OffsetRange>,
  signal?: AbortSignal,
): AsyncGenerator<ScannedRecord[]> {
  const next = new Map<number, number>()
  for (const [partition, { from, to }] of ranges) {
    const first = Math.max(from, await reader.start(topic, partition))
    if (first < to) next.set(partition, first)
  }
  let movedAt = performance.now()
  while (next.size > 0) {
    signal?.throwIfAborted()
    const before = sum(next)
    const fetched = await reader.fetch(topic, next, FETCH_WAIT_MS)
    const page = fetched.flatMap(({ partition, records }) => {
      const to = ranges.get(partition)?.to ?? 0
      return records.filter(({ offset }) => offset < to).map(record => ({ partition, ...record }))
    })
    if (sum(next) > before) movedAt = performance.now()
    else {
      if (performance.now() - movedAt > STUCK_MS) throw new Error(`${topic}: nothing came for ${STUCK_MS / 1000} s`)
      // Somebody's transaction is still open below the end: it ends by commit, abort or timeout.
      await delay(HELD_BACK_MS)
    }
    for (const [partition, offset] of next) if (offset >= (ranges.get(partition)?.to ?? 0)) next.delete(partition)
    if (page.length > 0) yield page
  }
}

const sum = (offsets: ReadonlyMap<number, number>): number => [...offsets.values()].reduce((all, one) => all + one, 0)
