/**
 * Makes whole refreshes of the log's records, and knows after each what has been told.
 *
 * Pure: records and time are arguments. The live stream and every replay tell through one of these. Invariant: from
 * position to position each change of the log is told once, whatever the order in which partitions are read, and the
 * changes of an item in theirs; a position is right until the next record is taken.
 */
import type { BookChanged, RefreshMarked } from '#schemas/events/book-changed.ts'
import { firstUntold, type LogPosition, laneOf } from './log-position.ts'
import { type Batch, type BufferLimits, earliest, openRefreshBuffer } from './refresh-buffer.ts'

/** A batch, and the position that telling it leads to. */
export interface ToldBatch extends Batch {
  /** The position when its first `count` changes are told. */
  positionAfter(count: number): LogPosition
}

/** A decoded record of market.book-changes. */
export type ChangeRecord = { partition: number; offset: number } & (
  | { event: 'BookChanged'; value: BookChanged }
  | { event: 'RefreshMarked'; value: RefreshMarked }
)

/** Tells what lies between two positions. */
export interface RefreshTeller {
  take(record: ChangeRecord, nowMs: number): ToldBatch[]
  /** Notes a record that holds nothing to tell. */
  skip(partition: number, offset: number): void
  /** Releases what was pushed, and what has waited too long. */
  release(nowMs: number): ToldBatch[]
  /** Releases all that is held. */
  drain(): ToldBatch[]
  /** What has been told when every released batch is. */
  position(): LogPosition
  held(): number
}

/** Opens a teller of what lies after `from` and, where given, before `to`. */
export function openRefreshTeller(limits: BufferLimits, from: LogPosition, to?: LogPosition): RefreshTeller {
  const buffer = openRefreshBuffer(limits)
  const read = [...from.next.map((_, partition) => Math.min(...startsOf(from, partition)))]

  const told = (untold: ReadonlyMap<string, readonly number[]>): LogPosition => {
    const upTo = (offset: number, known: number, end: number | undefined) =>
      Math.min(Math.max(offset, known), end ?? Number.POSITIVE_INFINITY)
    const next = read.map((offset, partition) => upTo(offset, from.next[partition] ?? 0, to?.next[partition]))
    const behind = new Map<string, number[]>()
    for (const lane of new Set([...from.behind.keys(), ...(to?.behind.keys() ?? []), ...untold.keys()])) {
      const own = read.map((offset, partition) => {
        const reached = upTo(offset, firstUntold(from, lane, partition), to && firstUntold(to, lane, partition))
        return Math.min(reached, untold.get(lane)?.[partition] ?? reached)
      })
      if (own.some((offset, partition) => offset !== next[partition])) behind.set(lane, own)
    }
    return { next, behind }
  }
  const tell = (batches: readonly Batch[]): ToldBatch[] =>
    batches.map((batch, at) => ({
      ...batch,
      positionAfter: count => told(untoldAfter(buffer.heldFrom(), batch, count, batches.slice(at + 1))),
    }))

  return {
    take({ partition, offset, event, value }, nowMs) {
      read[partition] = offset + 1
      const lane = laneOf(value.side, value.provider)
      const isOutside = offset < firstUntold(from, lane, partition)
      if (isOutside || (to && offset >= firstUntold(to, lane, partition))) return []
      const place = { partition, offset }
      return tell(event === 'BookChanged' ? buffer.change(value, place) : buffer.mark(value, place, nowMs))
    },
    skip(partition, offset) {
      read[partition] = offset + 1
    },
    release: nowMs => tell(buffer.release(nowMs)),
    drain: () => tell(buffer.drain()),
    position: () => told(buffer.heldFrom()),
    held: buffer.held,
  }
}

function startsOf({ next, behind }: LogPosition, partition: number): number[] {
  const offset = next[partition] ?? 0
  return [offset, ...[...behind.values()].map(own => own[partition] ?? offset)]
}

/** Lane → first offsets of what is not told when `count` changes of a batch are, and none of the later batches. */
function untoldAfter(
  held: Map<string, readonly number[]>,
  batch: Batch,
  count: number,
  later: readonly Batch[],
): ReadonlyMap<string, readonly number[]> {
  const rest: number[] = []
  for (const { partition, offset } of batch.places.slice(count)) rest[partition] ??= offset
  const add = ({ side, provider }: Batch, first: readonly number[]) => {
    const lane = laneOf(side, provider)
    held.set(lane, earliest([held.get(lane) ?? [], first]))
  }
  if (rest.length > 0) add(batch, rest)
  for (const one of later) add(one, one.first)
  return held
}
