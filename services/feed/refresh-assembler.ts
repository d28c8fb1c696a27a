/**
 * Assembles whole refreshes from the log's records, and knows after each record what has been delivered.
 *
 * The live stream and every replay read through an assembler. Between two positions it returns each change of the log
 * once, whatever the order in which partitions are read, and the changes of an item in their order. A position holds
 * until the next record is taken.
 */
import type { BookChanged, RefreshMarked } from '#schemas/events/book-changed.ts'
import { firstUndelivered, type LogPosition, laneOf } from './log-position.ts'
import { type BufferLimits, earliest, openRefreshBuffer, type ReleasedBatch } from './refresh-buffer.ts'

/** A batch, and the position that its delivery leads to. */
export interface AssembledBatch extends ReleasedBatch {
  /** The position once its first `count` changes are delivered. */
  positionAfter(count: number): LogPosition
}

/** A decoded record of market.book-changes. */
export type ChangeRecord = { partition: number; offset: number } & (
  | { event: 'BookChanged'; value: BookChanged }
  | { event: 'RefreshMarked'; value: RefreshMarked }
)

/** Assembles what lies between two positions. */
export interface RefreshAssembler {
  take(record: ChangeRecord, nowMs: number): AssembledBatch[]
  /** Notes a record that holds nothing to deliver. */
  skip(partition: number, offset: number): void
  /** Releases what was pushed, and what has waited too long. */
  release(nowMs: number): AssembledBatch[]
  /** Releases all that is held. */
  drain(): AssembledBatch[]
  /** What has been delivered when every released batch is. */
  position(): LogPosition
  held(): number
}

/** Opens an assembler of what lies after `from` and, where given, before `to`. */
export function openRefreshAssembler(limits: BufferLimits, from: LogPosition, to?: LogPosition): RefreshAssembler {
  const buffer = openRefreshBuffer(limits)
  const read = [...from.next.map((_, partition) => Math.min(...startsOf(from, partition)))]

  const positionWithout = (undelivered: ReadonlyMap<string, readonly number[]>): LogPosition => {
    const upTo = (offset: number, known: number, end: number | undefined) =>
      Math.min(Math.max(offset, known), end ?? Number.POSITIVE_INFINITY)
    const next = read.map((offset, partition) => upTo(offset, from.next[partition] ?? 0, to?.next[partition]))
    const behind = new Map<string, number[]>()
    for (const lane of new Set([...from.behind.keys(), ...(to?.behind.keys() ?? []), ...undelivered.keys()])) {
      const own = read.map((offset, partition) => {
        const reached = upTo(
          offset,
          firstUndelivered(from, lane, partition),
          to && firstUndelivered(to, lane, partition),
        )
        return Math.min(reached, undelivered.get(lane)?.[partition] ?? reached)
      })
      if (own.some((offset, partition) => offset !== next[partition])) behind.set(lane, own)
    }
    return { next, behind }
  }
  const withPositions = (batches: readonly ReleasedBatch[]): AssembledBatch[] =>
    batches.map((batch, at) => ({
      ...batch,
      positionAfter: count => positionWithout(undeliveredAfter(buffer.heldFrom(), batch, count, batches.slice(at + 1))),
    }))

  return {
    take({ partition, offset, event, value }, nowMs) {
      read[partition] = offset + 1
      const lane = laneOf(value.side, value.provider)
      const isOutside = offset < firstUndelivered(from, lane, partition)
      if (isOutside || (to && offset >= firstUndelivered(to, lane, partition))) return []
      const source = { partition, offset }
      return withPositions(event === 'BookChanged' ? buffer.change(value, source) : buffer.mark(value, source, nowMs))
    },
    skip(partition, offset) {
      read[partition] = offset + 1
    },
    release: nowMs => withPositions(buffer.release(nowMs)),
    drain: () => withPositions(buffer.drain()),
    position: () => positionWithout(buffer.heldFrom()),
    held: buffer.held,
  }
}

function startsOf({ next, behind }: LogPosition, partition: number): number[] {
  const offset = next[partition] ?? 0
  return [offset, ...[...behind.values()].map(own => own[partition] ?? offset)]
}

/** Lane → first offsets of what is not delivered when `count` changes of a batch are, and none of the later batches. */
function undeliveredAfter(
  held: Map<string, readonly number[]>,
  batch: ReleasedBatch,
  count: number,
  later: readonly ReleasedBatch[],
): ReadonlyMap<string, readonly number[]> {
  const rest: number[] = []
  for (const { partition, offset } of batch.offsets.slice(count)) rest[partition] ??= offset
  const add = ({ side, provider }: ReleasedBatch, first: readonly number[]) => {
    const lane = laneOf(side, provider)
    held.set(lane, earliest([held.get(lane) ?? [], first]))
  }
  if (rest.length > 0) add(batch, rest)
  for (const one of later) add(one, one.first)
  return held
}
