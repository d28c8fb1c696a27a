/**
 * The members of one reading of the log, and what each of them lacks of it.
 *
 * Pure: batches and positions are arguments. A member comes with a position of its own, at or behind that of the reading when it
 * joins. States of a member: ahead (it has all that was read so far) -> reached (it has some of it) -> aligned (the reading
 * covers its position; frames and ids are those of all aligned members). Invariant: each change behind its position
 * is delivered to a member once, and the position that comes with a frame is the union of the member's and the reading's.
 */
import type { BookChanged, Side } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { openItemText } from './frames.ts'
import { type Hub, openHub, type Subscription } from './hub.ts'
import { covers, encodePosition, firstUndelivered, type LogPosition, laneOf, unionOf } from './log-position.ts'
import type { AssembledBatch } from './refresh-assembler.ts'

/** A frame for some members, and the position that it leads them to. */
export interface GroupDelivery<M> {
  frame: Buffer
  to: readonly M[]
  /** The position of each of them when it has the frame; right until the batch is over. */
  position(): LogPosition
}

/** Members of one reading. */
export interface ReadingGroup<M extends Subscription> {
  /** Adds a member that has `own`; the reading has delivered all up to `reading`. */
  add(member: M, own: LogPosition, reading: LogPosition): void
  remove(member: M): void
  deliver(batch: AssembledBatch): Iterable<GroupDelivery<M>>
  /** Notes that all up to a position has been delivered. */
  advance(reading: LogPosition): void
  /** What a member has when all up to `reading` has been delivered. */
  positionOf(member: M, reading: LogPosition): LogPosition
  /** Whether some members are not aligned. */
  isMixed(): boolean
}

/** Members that came with the same position, which the reading does not cover yet. */
interface Cohort<M> {
  key: string
  position: LogPosition
  members: Set<M>
  isReached: boolean
}

/** What of a batch a cohort lacks. */
type Share = 'none' | 'part' | 'all'

/** Opens an empty group for one side of the book. */
export function openReadingGroup<M extends Subscription>(
  side: Side,
  itemOf: (itemId: number) => CatalogItem | undefined,
  itemText = openItemText(),
): ReadingGroup<M> {
  const emptyHub = () => openHub<M>(itemOf, itemText)
  const hub = emptyHub()
  const cohorts = new Map<string, Cohort<M>>()
  const cohortOf = new Map<M, Cohort<M>>()

  const reach = (cohort: Cohort<M>): void => {
    if (cohort.isReached) return
    cohort.isReached = true
    for (const member of cohort.members) hub.add(member)
  }
  const leaveCohort = (member: M): void => {
    const cohort = cohortOf.get(member)
    cohortOf.delete(member)
    cohort?.members.delete(member)
    if (cohort?.members.size === 0) cohorts.delete(cohort.key)
  }
  return {
    add(member, own, reading) {
      if (covers(reading, own)) return hub.add(member)
      const key = encodePosition(own, '')
      const cohort = cohorts.get(key) ?? { key, position: own, members: new Set<M>(), isReached: false }
      cohorts.set(key, cohort)
      cohort.members.add(member)
      cohortOf.set(member, cohort)
      if (cohort.isReached) hub.add(member)
    },
    remove(member) {
      leaveCohort(member)
      hub.remove(member)
    },
    *deliver(batch) {
      if (batch.side !== side) return
      const shares = sharesOf(batch, cohorts)
      for (const [cohort, share] of shares) if (share !== 'none') reach(cohort)
      const positionAt = openPositions<M>(batch)
      for (const { frame, to, through } of hub.deliver(batch)) {
        const split = shares.size === 0 ? [[undefined, to] as const] : Map.groupBy(to, member => cohortOf.get(member))
        for (const [cohort, own] of split) {
          if (cohort && shares.get(cohort) !== 'all') continue
          yield { frame, to: own, position: () => positionAt(through, cohort) }
        }
      }
      for (const [cohort, share] of shares) if (share === 'part') yield* restOf(batch, cohort, positionAt, emptyHub())
    },
    advance(reading) {
      for (const cohort of cohorts.values()) {
        if (!covers(reading, cohort.position)) continue
        reach(cohort)
        cohorts.delete(cohort.key)
        for (const member of cohort.members) cohortOf.delete(member)
      }
    },
    positionOf(member, reading) {
      const cohort = cohortOf.get(member)
      return cohort ? unionOf(cohort.position, reading) : reading
    },
    isMixed: () => cohorts.size > 0,
  }
}

type PositionAt<M> = (through: number, cohort: Cohort<M> | undefined) => LogPosition

/** Positions within a batch, each made once. */
function openPositions<M>(batch: AssembledBatch): PositionAt<M> {
  const made = new Map<Cohort<M> | undefined, Map<number, LogPosition>>()
  const positionAt: PositionAt<M> = (through, cohort) => {
    const own = made.get(cohort) ?? new Map<number, LogPosition>()
    made.set(cohort, own)
    const found = own.get(through)
    if (found) return found
    const position = cohort ? unionOf(cohort.position, positionAt(through, undefined)) : batch.positionAfter(through)
    own.set(through, position)
    return position
  }
  return positionAt
}

/** What each cohort lacks of a batch: by the lowest and highest offset per partition, which settles most of them. */
function sharesOf<M>(batch: AssembledBatch, cohorts: ReadonlyMap<string, Cohort<M>>): Map<Cohort<M>, Share> {
  const shares = new Map<Cohort<M>, Share>()
  if (cohorts.size === 0) return shares
  const lane = laneOf(batch.side, batch.provider)
  const [lowest, highest]: [number[], number[]] = [[], []]
  for (const { partition, offset } of batch.offsets) {
    lowest[partition] = Math.min(lowest[partition] ?? offset, offset)
    highest[partition] = Math.max(highest[partition] ?? offset, offset)
  }
  for (const cohort of cohorts.values()) {
    let [hasNew, hasOld] = [false, false]
    lowest.forEach((low, partition) => {
      const first = firstUndelivered(cohort.position, lane, partition)
      hasOld ||= low < first
      hasNew ||= (highest[partition] as number) >= first
    })
    shares.set(cohort, hasNew ? (hasOld ? 'part' : 'all') : 'none')
  }
  return shares
}

/** The frames of what a cohort lacks of a batch that it has in part; `hub` is an empty one. */
function* restOf<M extends Subscription>(
  batch: AssembledBatch,
  cohort: Cohort<M>,
  positionAt: PositionAt<M>,
  hub: Hub<M>,
): Iterable<GroupDelivery<M>> {
  const lane = laneOf(batch.side, batch.provider)
  const kept = batch.offsets.flatMap(({ partition, offset }, at) =>
    offset >= firstUndelivered(cohort.position, lane, partition) ? [at] : [],
  )
  for (const member of cohort.members) hub.add(member)
  const changes = kept.map(at => batch.changes[at] as BookChanged)
  for (const { frame, to, through } of hub.deliver({ ...batch, changes })) {
    const reached = kept[through] ?? batch.changes.length
    yield { frame, to, position: () => positionAt(reached, cohort) }
  }
}
