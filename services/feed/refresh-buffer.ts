/**
 * Buffers the changes of a refresh, which the log spreads over its partitions, until it is complete.
 *
 * Records and time are arguments. A refresh is released as one batch when the markers of all partitions have been read.
 * Invariant: the batches of a provider and side are released in the order of its refreshes, and no change waits for ever: a
 * refresh that can never complete, because its reader began in the middle of it, is released when the next one completes or
 * `waitMs` after its first marker, and a refresh beyond `changesMax` in parts. Pushed changes belong to no refresh and are
 * released at the end of their fetch.
 */
import type { BookChanged, RefreshMarked, Side } from '#schemas/events/book-changed.ts'
import { laneOf } from './log-position.ts'

/** Changes of one provider and side, in the order of the log, that are released together. */
export interface ReleasedBatch {
  side: Side
  provider: string
  changes: readonly BookChanged[]
  /** The offset of each of them in the log. */
  offsets: readonly RecordOffset[]
  /** Its first offset per partition, markers included; sparse. */
  first: readonly number[]
}

/** A record's partition and offset in the log. */
interface RecordOffset {
  partition: number
  offset: number
}

/** Limits of a buffer. */
export interface BufferLimits {
  /** Partitions of the topic. */
  partitions: number
  /** Longest wait for the markers of the other partitions. */
  waitMs: number
  /** Most changes held of one refresh. */
  changesMax: number
}

/** Holds changes until their refresh is complete. */
interface RefreshBuffer {
  change(change: BookChanged, source: RecordOffset): ReleasedBatch[]
  /** Takes the marker of one partition; `nowMs` is monotonic. */
  mark(marked: RefreshMarked, source: RecordOffset, nowMs: number): ReleasedBatch[]
  /** Releases what was pushed, and what has waited too long. */
  release(nowMs: number): ReleasedBatch[]
  /** Releases all that is held. */
  drain(): ReleasedBatch[]
  /** Changes held. */
  held(): number
  /** Lane → the first offset per partition of what is held; sparse. */
  heldFrom(): Map<string, readonly number[]>
}

interface Open {
  /** Null collects pushed changes. */
  refreshId: string | null
  /** Time of the refresh: a provider's refreshes are in the log in this order. */
  at: number
  changes: BookChanged[]
  offsets: RecordOffset[]
  first: number[]
  markers: Set<number>
  firstMarkerAt: number | undefined
}

interface Lane {
  side: Side
  provider: string
  /** Oldest first; one of them for most of the time. */
  open: Open[]
}

/** Opens an empty buffer. */
export function openRefreshBuffer(limits: BufferLimits): RefreshBuffer {
  const lanes = new Map<string, Lane>()
  let held = 0

  const openLane = ({ side, provider }: { side: Side; provider: string }): Lane => {
    const key = laneOf(side, provider)
    const found = lanes.get(key)
    if (found) return found
    const created: Lane = { side, provider, open: [] }
    lanes.set(key, created)
    return created
  }
  /** Partitions are read concurrently, so the later of two refreshes may be read first: time orders them. */
  const openIn = (lane: Lane, refreshId: string | null, at: number): Open => {
    const found = lane.open.find(open => open.refreshId === refreshId)
    if (found) return found
    const nothing = { changes: [], offsets: [], first: [], firstMarkerAt: undefined }
    const created: Open = { refreshId, at, markers: new Set(), ...nothing }
    lane.open.splice(lane.open.findLastIndex(open => open.at <= at) + 1, 0, created)
    return created
  }
  /** Ends the lane's refreshes up to and including `last`; one that gets more after all begins again where it was. */
  const endUpTo = (lane: Lane, last: Open): ReleasedBatch[] =>
    lane.open.splice(0, lane.open.indexOf(last) + 1).flatMap(({ changes, offsets, first }) => {
      held -= changes.length
      const { side, provider } = lane
      return changes.length === 0 ? [] : [{ side, provider, changes, offsets, first }]
    })

  return {
    change(change, source) {
      const lane = openLane(change)
      const open = openIn(lane, change.refresh_id, change.seen_at)
      open.changes.push(change)
      open.offsets.push(source)
      open.first[source.partition] ??= source.offset
      held += 1
      return open.changes.length < limits.changesMax ? [] : endUpTo(lane, open)
    },
    mark(marked, { partition, offset }, nowMs) {
      const lane = openLane(marked)
      const open = openIn(lane, marked.refresh_id, marked.last_updated)
      open.markers.add(partition)
      open.first[partition] ??= offset
      open.firstMarkerAt ??= nowMs
      return open.markers.size < limits.partitions ? [] : endUpTo(lane, open)
    },
    release(nowMs) {
      const batches: ReleasedBatch[] = []
      for (const lane of lanes.values()) {
        const isOver = ({ refreshId, firstMarkerAt }: Open) =>
          refreshId === null || (firstMarkerAt !== undefined && nowMs - firstMarkerAt >= limits.waitMs)
        const last = lane.open.findLast(isOver)
        if (last) batches.push(...endUpTo(lane, last))
      }
      return batches
    },
    drain: () =>
      [...lanes.values()].flatMap(lane => {
        const last = lane.open.at(-1)
        return last ? endUpTo(lane, last) : []
      }),
    held: () => held,
    heldFrom: () => firstOffsets(lanes),
  }
}

function firstOffsets(lanes: ReadonlyMap<string, Lane>): Map<string, readonly number[]> {
  const holding = [...lanes].filter(([, { open }]) => open.length > 0)
  return new Map(holding.map(([lane, { open }]) => [lane, earliest(open.map(({ first }) => first))]))
}

/** The smallest offset per partition; sparse like what it is made of. */
export function earliest(offsets: readonly (readonly number[])[]): number[] {
  const result: number[] = []
  for (const one of offsets) {
    one.forEach((offset, partition) => {
      result[partition] = Math.min(result[partition] ?? offset, offset)
    })
  }
  return result
}
