/**
 * Rules that have come and wait until they are evaluated.
 *
 * State of one partition; reads the end of market.book-changes. Append times order rules and changes: a rule is evaluated
 * after the changes that were appended before it and before those appended later (of the same millisecond, before all). A rule
 * counts from when it was enabled by the clock of `accounts`, if that is earlier. Where these clocks lie up to `d` apart (an outbox
 * that lags adds its lag), it is still evaluated once, after all that came longer than `d` before it and before all that came longer
 * than `d` after it: it sees every later change, never fires by a price that was gone by then, and fires once a version; within `d`
 * it may meet a price that came and went, or not. A replay evaluates it at the same position each time; a live reader, which had the
 * rule later than its time says, may evaluate it some changes later, within `d`, and names the same version. Invariant: when no
 * change is left to be applied, no rule waits.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { isPassing } from '#infra/kafka/range-reader.ts'
import type { EnabledRule } from './rule-index.ts'

/** The end of the changes. */
export interface ChangesEnd {
  /** The offset after the last change that readers see. */
  end(partition: number): Promise<number>
  /** A position moved past control and aborted records, up to the next change. */
  past(partition: number, position: number): Promise<number>
}

/** What a queue works with. */
interface RuleQueueOptions {
  partition: number
  changes: ChangesEnd
  /** The next change to be applied. */
  position(): number
  /** Evaluates a rule. */
  consider(rule: EnabledRule): void
  /** Rules were evaluated without a change. */
  onSettled(): void
  fail(error: Error): void
}

/** The rules of a partition that wait. */
interface RuleQueue {
  /** A rule has come; `since` is when it was enabled. */
  add(rule: EnabledRule, since: number): void
  /** Rules are evaluated from now on; before, the position is not known. */
  begin(): void
  /** A change that the log took at this time is about to be applied. */
  release(appendedAt: number): void
  size(): number
  close(): void
}

interface Waiting {
  rule: EnabledRule
  since: number
}

interface QueueState {
  /** By `since`. */
  waiting: Waiting[]
  isClosed: boolean
}

/** Above this distance it is not worth a fetch to find out whether only transaction markers are left. */
const ASK_BELOW = 1_000
const SETTLE_MS = 10

/** Opens an empty queue. */
export function openRuleQueue(options: RuleQueueOptions): RuleQueue {
  const state: QueueState = { waiting: [], isClosed: false }
  let hasBegun = false
  let isSettling = false

  const settleSoon = (): void => {
    if (isSettling || !hasBegun || state.isClosed || state.waiting.length === 0) return
    isSettling = true
    settle(state, options)
      .catch(error => {
        if (!state.isClosed) options.fail(error)
      })
      .finally(() => {
        isSettling = false
        settleSoon()
      })
  }
  return {
    add(rule, since) {
      insert(state.waiting, { rule, since }, hasBegun)
      settleSoon()
    },
    begin() {
      state.waiting.sort((one, other) => one.since - other.since)
      hasBegun = true
      settleSoon()
    },
    release: appendedAt => release(state, options, appendedAt),
    size: () => state.waiting.length,
    close() {
      state.isClosed = true
    },
  }
}

/** Rules come almost in their order; at the start, when many come, they are sorted once. */
function insert(waiting: Waiting[], one: Waiting, isSorted: boolean): void {
  let at = waiting.push(one) - 1
  if (!isSorted) return
  for (let before = waiting[at - 1]; before && before.since > one.since; before = waiting[at - 1]) {
    waiting[at] = before
    at -= 1
  }
  waiting[at] = one
}

function release(state: QueueState, { consider }: RuleQueueOptions, appendedAt: number): void {
  let gone = 0
  for (let next = state.waiting[0]; next && next.since <= appendedAt; next = state.waiting[gone]) {
    consider(next.rule)
    gone += 1
  }
  if (gone > 0) state.waiting = state.waiting.slice(gone)
}

/** Until no rule waits: evaluates those that had come before the end of the changes was reached. */
async function settle(state: QueueState, options: RuleQueueOptions): Promise<void> {
  const { partition, changes, position, onSettled } = options
  while (state.waiting.length > 0 && !state.isClosed) {
    const youngest = state.waiting.at(-1)?.since ?? 0
    // Changes that come later than this answer are younger than they are, and are applied after `prepare`.
    const end = await changes.end(partition)
    const reached = position()
    const isNear = reached < end && end - reached < ASK_BELOW
    const past = isNear ? await pastOrHere(changes, partition, reached) : reached
    if (Math.max(past, position()) >= end) {
      release(state, options, youngest)
      onSettled()
    } else await pause(SETTLE_MS)
  }
}

/** While the partition's leader moves the position stays; the next round asks the new leader. */
async function pastOrHere(changes: ChangesEnd, partition: number, position: number): Promise<number> {
  try {
    return await changes.past(partition, position)
  } catch (error) {
    if (!isPassing(error)) throw error
    return position
  }
}
