/**
 * Rules that have come and wait for the change after which they are to be looked at.
 *
 * State of one partition; reads the end of market.book-changes. A rule is looked at when every change that the log took
 * before it has been applied, and no later one: so it fires neither by a price from before it nor misses one after it,
 * also when changes are behind or are read again after a crash. Invariant: rules leave in the order in which they came
 * to stand; a rule for which no change is left to wait is let go at once.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Rule } from './rule-group.ts'

/** The end of the changes, as a queue asks for it. */
export interface ChangesEnd {
  /** The offset after the last change that readers see. */
  end(partition: number): Promise<number>
  /** A position moved over what no reader ever sees, up to the next change. */
  past(partition: number, position: number): Promise<number>
}

/** The rules of a partition that wait. */
export interface RuleQueue {
  /** A rule has come; `since` is when it came to stand. */
  add(rule: Rule, since: number): void
  /** All rules that stood before the end of the changes have come: whether there are any. */
  place(): boolean
  /** Hears of each change between the group's position and the end, once {@link place} was asked. */
  onChange(offset: number, appendedAt: number): void
  /** The changes up to `end` have been told; from now on rules leave. */
  begin(end: number): void
  /** Lets go of the rules that wait for no change at or after `position`. */
  release(position: number): void
  close(): void
}

interface Waiting {
  rule: Rule
  since: number
  /** The first change that is not to be applied before it; infinite while that is not known. */
  before: number
}

/** Above this distance it is not worth asking whether only markers of transactions are left. */
const ASK_BELOW = 1_000
const SETTLE_MS = 10

/** Opens an empty queue; `position` tells the next change to be applied. */
export function openRuleQueue(options: {
  partition: number
  changes: ChangesEnd
  position(): number
  /** Looks at a rule. */
  consider(rule: Rule): void
  /** Rules have left without a change. */
  onSettled(): void
  fail(error: Error): void
}): RuleQueue {
  const { partition, changes, position, consider } = options
  let waiting: Waiting[] = []
  let sorted = 0
  let placed = 0
  let hasBegun = false
  let isSettling = false
  let isClosed = false

  const release = (upTo: number): void => {
    let gone = 0
    for (let next = waiting[0]; next && next.before <= upTo; next = waiting[gone]) {
      consider(next.rule)
      gone += 1
    }
    if (gone > 0) waiting = waiting.slice(gone)
  }
  /** Until nothing waits: gives the newcomers their place, and sees to it that the last ones need no further change. */
  const settle = async (): Promise<void> => {
    while (waiting.length > 0 && !isClosed) {
      const newcomers = waiting.filter(({ before }) => before === Number.POSITIVE_INFINITY)
      const end = await changes.end(partition)
      for (const each of newcomers) each.before = end
      const reached = position()
      const last = waiting.at(-1)?.before ?? 0
      const isNear = reached < last && end - reached < ASK_BELOW
      const past = isNear ? await changes.past(partition, reached) : reached
      // A change that has been applied meanwhile has let go of its own.
      release(Math.max(past, position()))
      options.onSettled()
      if (waiting.length > 0) await pause(SETTLE_MS)
    }
  }
  const settleSoon = (): void => {
    if (isSettling || !hasBegun) return
    isSettling = true
    settle()
      .catch(error => {
        if (!isClosed) options.fail(error)
      })
      .finally(() => {
        isSettling = false
        if (waiting.length > 0 && !isClosed) settleSoon()
      })
  }
  return {
    add(rule, since) {
      waiting.push({ rule, since, before: Number.POSITIVE_INFINITY })
      settleSoon()
    },
    place() {
      waiting.sort((one, other) => one.since - other.since)
      sorted = waiting.length
      return sorted > 0
    },
    onChange(offset, appendedAt) {
      for (let next = waiting[placed]; placed < sorted && next && next.since <= appendedAt; next = waiting[placed]) {
        next.before = offset
        placed += 1
      }
    },
    begin(end) {
      for (const each of waiting.slice(placed, sorted)) each.before = end
      hasBegun = true
      release(position())
      if (waiting.length > 0) settleSoon()
    },
    release,
    close() {
      isClosed = true
    },
  }
}
