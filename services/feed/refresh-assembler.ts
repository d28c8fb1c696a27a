/**
 * Groups the log's records into whole refreshes, and knows after each record what has been delivered.
 *
 * Pure: records and time are arguments. The log spreads a refresh over its partitions; it is released as one batch when the markers of
 * all of them have been read. Invariants: the batches of a provider's side are released in the order of its refreshes; between two
 * positions each change of the log is released once, whatever the order in which partitions are read, and the changes of an item in
 * their order; no change waits for ever: a refresh that can never complete, because its reader began in the middle of it, is
 * released when the next one completes or `waitMs` after its first marker, and a refresh beyond `changesMax` in parts. Pushed changes
 * and sales belong to no refresh and are released at the end of their fetch.
 */
import type { FeedSide } from '#schemas/events/feed-advanced.ts'
import type { ChangeRecord, FeedChange } from './feed-topics.ts'
import { firstUndelivered, type LogPosition, providerSide, readFrom } from './log-position.ts'

/** Changes of one provider's side, in the order of the log, that are released together. */
export interface AssembledBatch {
  side: FeedSide
  provider: string
  changes: readonly FeedChange[]
  /** The offset of each of them in the log. */
  offsets: readonly Pick<ChangeRecord, 'partition' | 'offset'>[]
  /** The position once its first `count` changes are delivered; until the next record is added. */
  positionAfter(count: number): LogPosition
}

/** Most changes held of one refresh. */
export const HELD_MAX = 100_000

interface AssemblerLimits {
  partitions: number
  /** Longest wait for the markers of the other partitions. */
  waitMs: number
  /** Most changes held of one refresh. */
  changesMax: number
}

interface OpenRefresh {
  /** Null collects pushed changes. */
  refreshId: string | null
  /** A provider's refreshes are in the log in this order. */
  at: number
  changes: FeedChange[]
  offsets: Pick<ChangeRecord, 'partition' | 'offset'>[]
  /** Its first offset per partition, markers included; sparse. */
  first: number[]
  markers: Set<number>
  firstMarkerAt: number | undefined
}

interface ProviderSide {
  side: FeedSide
  provider: string
  /** Oldest first; one of them for most of the time. */
  open: OpenRefresh[]
}

type ReleasedBatch = Omit<AssembledBatch, 'positionAfter'> & Pick<OpenRefresh, 'first'>
type Undelivered = Pick<ReleasedBatch, 'side' | 'provider' | 'first'>

/** Opens an assembler of what lies after `from` and, where given, before `to`. */
export function openRefreshAssembler(limits: AssemblerLimits, from: LogPosition, to?: LogPosition) {
  const sides = new Map<string, ProviderSide>()
  const read = readFrom(from)
  let held = 0

  const sideOf = ({ side, provider }: { side: FeedSide; provider: string }): ProviderSide => {
    const key = providerSide(side, provider)
    const stored = sides.get(key) ?? { side, provider, open: [] }
    sides.set(key, stored)
    return stored
  }
  /** Ends a side's refreshes up to and including `last`; one that gets more after all begins again where it was. */
  const endUpTo = ({ side, provider, open }: ProviderSide, last: OpenRefresh): ReleasedBatch[] =>
    open.splice(0, open.indexOf(last) + 1).flatMap(({ changes, offsets, first }) => {
      held -= changes.length
      return changes.length === 0 ? [] : [{ side, provider, changes, offsets, first }]
    })
  const endLast = (isOver: (refresh: OpenRefresh) => boolean): AssembledBatch[] =>
    withPositions(
      [...sides.values()].flatMap(side => {
        const last = side.open.findLast(isOver)
        return last ? endUpTo(side, last) : []
      }),
    )

  /** The position while what is open is not delivered, nor `released`. */
  const positionWithout = (released: readonly Undelivered[]): LogPosition => {
    const open = [...sides.values()].flatMap(({ open, ...side }) => open.map(({ first }) => ({ ...side, first })))
    const keyOf = ({ side, provider }: Undelivered) => providerSide(side, provider)
    return positionOf(read, Map.groupBy([...open, ...released], keyOf), from, to)
  }
  const withPositions = (batches: readonly ReleasedBatch[]): AssembledBatch[] =>
    batches.map((batch, at) => ({
      ...batch,
      positionAfter(count) {
        const first: number[] = []
        for (const { partition, offset } of batch.offsets.slice(count)) first[partition] ??= offset
        return positionWithout([{ ...batch, first }, ...batches.slice(at + 1)])
      },
    }))

  return {
    add({ partition, offset, event, value }: ChangeRecord, nowMs: number): AssembledBatch[] {
      read[partition] = offset + 1
      const key = providerSide(value.side, value.provider)
      const isOutside = offset < firstUndelivered(from, key, partition)
      if (isOutside || (to && offset >= firstUndelivered(to, key, partition))) return []
      const side = sideOf(value)
      const refresh = refreshOf(side, value.refresh_id, event === 'RefreshMarked' ? value.last_updated : value.seen_at)
      refresh.first[partition] ??= offset
      if (event === 'RefreshMarked') {
        refresh.markers.add(partition)
        refresh.firstMarkerAt ??= nowMs
        return refresh.markers.size < limits.partitions ? [] : withPositions(endUpTo(side, refresh))
      }
      refresh.changes.push(value)
      refresh.offsets.push({ partition, offset })
      held += 1
      return refresh.changes.length < limits.changesMax ? [] : withPositions(endUpTo(side, refresh))
    },
    skip(partition: number, offset: number): void {
      read[partition] = offset + 1
    },
    /** Releases what was pushed, and what has waited too long. */
    release: (nowMs: number) =>
      endLast(
        ({ refreshId, firstMarkerAt }) =>
          refreshId === null || (firstMarkerAt !== undefined && nowMs - firstMarkerAt >= limits.waitMs),
      ),
    drain: () => endLast(() => true),
    /** The position once every released batch is delivered. */
    position: () => positionWithout([]),
    held: () => held,
  }
}

/** Partitions are read concurrently, so the later of two refreshes may be read first: time orders them. */
function refreshOf({ open }: ProviderSide, refreshId: string | null, at: number): OpenRefresh {
  const stored = open.find(refresh => refresh.refreshId === refreshId)
  if (stored) return stored
  const empty = { changes: [], offsets: [], first: [], firstMarkerAt: undefined }
  const created: OpenRefresh = { refreshId, at, markers: new Set(), ...empty }
  open.splice(open.findLastIndex(refresh => refresh.at <= at) + 1, 0, created)
  return created
}

/** The position of all that was read of a range and is delivered. */
function positionOf(
  read: readonly number[],
  undelivered: ReadonlyMap<string, readonly Undelivered[]>,
  from: LogPosition,
  to: LogPosition | undefined,
): LogPosition {
  const reached = (offset: number, begin: number, end = Number.POSITIVE_INFINITY): number =>
    Math.min(Math.max(offset, begin), end)
  const next = read.map((offset, partition) => reached(offset, from.next[partition] ?? 0, to?.next[partition]))
  const behind = new Map<string, number[]>()
  for (const key of new Set([...from.behind.keys(), ...(to?.behind.keys() ?? []), ...undelivered.keys()])) {
    const own = read.map((offset, partition) => {
      const end = to && firstUndelivered(to, key, partition)
      const firsts = (undelivered.get(key) ?? []).map(({ first }) => first[partition] ?? Number.POSITIVE_INFINITY)
      return Math.min(reached(offset, firstUndelivered(from, key, partition), end), ...firsts)
    })
    if (own.some((offset, partition) => offset !== next[partition])) behind.set(key, own)
  }
  return { next, behind }
}
