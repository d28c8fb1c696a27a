/**
 * Reads several partitions of a topic side by side, page by page, between fixed offsets.
 *
 * For tools that go through much of the log: nothing is kept beyond the page at hand and the next. Reads committed records only, in order
 * per partition. Invariant: it ends exactly when every partition has reached its end, whatever compaction or
 * transactions have emptied; without any progress for two minutes it throws.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { LogRecord, RangeReader } from './range-reader.ts'

/** A record of a scan. */
export type ScannedRecord = LogRecord

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
  const fetchPage = async (): Promise<ScannedRecord[]> => {
    const before = sum(next)
    const fetched = await reader.fetch(topic, next, FETCH_WAIT_MS)
    if (sum(next) > before) movedAt = performance.now()
    else {
      if (performance.now() - movedAt > STUCK_MS) throw new Error(`${topic}: nothing came for ${STUCK_MS / 1000} s`)
      // A transaction is still open below the end: it ends by commit, abort or timeout.
      await delay(HELD_BACK_MS)
    }
    for (const [partition, offset] of next) if (offset >= (ranges.get(partition)?.to ?? 0)) next.delete(partition)
    const page: ScannedRecord[] = []
    for (const { partition, records } of fetched) {
      const to = ranges.get(partition)?.to ?? 0
      // The records themselves, no copies: most of what a scan costs is what it does for each record.
      for (const record of records) if (record.offset < to) page.push(record)
    }
    return page
  }
  let coming = next.size > 0 ? fetchPage() : undefined
  while (coming !== undefined) {
    signal?.throwIfAborted()
    const page = await coming
    // The broker and the decompression work while the page is handled.
    coming = next.size > 0 ? fetchPage() : undefined
    coming?.catch(() => undefined)
    if (page.length > 0) yield page
  }
}

const sum = (offsets: ReadonlyMap<number, number>): number => [...offsets.values()].reduce((all, one) => all + one, 0)
