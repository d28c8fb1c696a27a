/**
 * The open partitions of a group member, and the backoff while a store is away.
 *
 * A slot is opened for every assigned partition at once, since an empty partition has a view too; `open` gets the function that
 * resumes the partition at the view's position. A new generation drops all slots: between two generations another owner may have
 * moved the view. Invariant: at most one slot per partition is current, and a dropped slot is closed.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { ResumeAt } from '#infra/kafka/group-consumer.ts'
import { openRefusalLimit } from '#infra/kafka/refusal.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { RoleContext } from '#infra/runtime/role.ts'
import type { TopicKey } from '#schemas/topics.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import { Stopped } from './positions.ts'

/** Opens and closes the slots of a group member. */
export interface Slots<S> {
  /** Drops every slot and opens those of the new generation. */
  replace(partitions: readonly { topic: TopicKey; partition: number }[], resumeAt: ResumeAt): void
  /** The slot of a partition, opened when need be; ticks while it waits. */
  get(topic: TopicKey, partition: number, tick: () => Promise<void>): Promise<S>
  /** Drops a slot after a failure; the next `get` opens another. */
  drop(topic: TopicKey, partition: number): Promise<void>
  /** Drops a slot and opens another at once, unless another one is current by now; without a slot all that are open. */
  reopen(slot?: S): void
  /** The slots that are open now. */
  opened(): { topic: TopicKey; partition: number; slot: S }[]
  /** The slot if it is open now. */
  peek(topic: TopicKey, partition: number): S | undefined
  /** Undefined when every assigned slot is open, else why not. */
  state(): string | undefined
  /** Closes all; resolves when none is opening or closing any more, dropped ones included. */
  close(): Promise<void>
}

interface Entry<S> {
  topic: TopicKey
  partition: number
  opening: Promise<S>
  slot: S | undefined
}

/** Keeps slots that `open` opens. */
export function openSlots<S extends { close(): Promise<void> }>(
  open: (topic: TopicKey, partition: number, resumeAt: ResumeAt) => Promise<S>,
  log: Log,
  onStopped: (stopped: readonly Stopped[]) => void = () => undefined,
): Slots<S> {
  let entries = new Map<string, Entry<S>>()
  const stops = openStops(log, onStopped)
  let resume: ResumeAt | undefined
  const start = (topic: TopicKey, partition: number): Entry<S> => {
    const opening = resume ? open(topic, partition, resume) : Promise.reject(new Error('nothing is assigned yet'))
    const entry: Entry<S> = { topic, partition, opening, slot: undefined }
    const name = nameOf(topic, partition)
    entries.set(name, entry)
    entry.opening.then(
      slot => {
        entry.slot = slot
        stops.note(name, undefined)
      },
      async error => {
        stops.note(name, error)
        await delay(REOPEN_MS)
        // A partition without records is opened by nothing else.
        if (entries.get(name) === entry) start(topic, partition)
      },
    )
    return entry
  }
  const closing = openClosing()
  const closeEntry = ({ opening }: Entry<S>): Promise<void> => closing.close(opening)
  const closeSoon = (entry: Entry<S>): void =>
    void closeEntry(entry).catch(error => log.debug({ error }, 'closing a partition'))
  return {
    replace(partitions, resumeAt) {
      const former = entries
      entries = new Map()
      stops.clear()
      resume = resumeAt
      for (const entry of former.values()) closeSoon(entry)
      for (const { topic, partition } of partitions) start(topic, partition)
    },
    get: (topic, partition, tick) =>
      whileTicking((entries.get(nameOf(topic, partition)) ?? start(topic, partition)).opening, tick),
    async drop(topic, partition) {
      const entry = entries.get(nameOf(topic, partition))
      entries.delete(nameOf(topic, partition))
      if (entry) await closeEntry(entry)
    },
    reopen(slot) {
      for (const entry of [...entries.values()]) {
        if (entry.slot === undefined || (slot !== undefined && entry.slot !== slot)) continue
        closeSoon(entry)
        start(entry.topic, entry.partition)
      }
    },
    opened: () =>
      [...entries.values()].flatMap(({ topic, partition, slot }) => (slot ? [{ topic, partition, slot }] : [])),
    peek: (topic, partition) => entries.get(nameOf(topic, partition))?.slot,
    state: () => (resume ? (stops.first() ?? waitingOf([...entries.values()])) : 'joining its group'),
    async close() {
      await Promise.all([...entries.values()].map(closeEntry))
      // A slot of an earlier generation that is still opening may write: its store may close only afterwards.
      await closing.settled()
      entries.clear()
    },
  }
}

function waitingOf(entries: readonly Entry<unknown>[]): string | undefined {
  const waiting = entries.filter(entry => entry.slot === undefined).length
  return waiting === 0 ? undefined : `opening ${waiting} of ${entries.length} partitions`
}

/** The partitions that stay closed since their position is not of the log that is there. */
function openStops(log: Log, onChange: (stopped: readonly Stopped[]) => void) {
  const stopped = new Map<string, Stopped>()
  return {
    /** What came of opening a partition. */
    note(name: string, error: unknown): void {
      const isStopped = error instanceof Stopped
      if (error !== undefined && !isStopped)
        log.warn({ error, partition: name }, 'a partition could not be opened; it is tried again')
      if (isStopped && stopped.get(name)?.message !== error.message) log.error(error.message)
      if (isStopped) stopped.set(name, error)
      else if (!stopped.delete(name)) return
      onChange([...stopped.values()])
    },
    first: (): string | undefined => stopped.values().next().value?.message,
    clear: (): void => stopped.clear(),
  }
}

/** Reports partitions that stay closed: as a metric, and to the process, which ends where the role runs alone. */
export function reportStopped(
  { metrics, stopped: report }: Pick<RoleContext, 'metrics' | 'stopped'>,
  group: string,
): (stopped: readonly Stopped[]) => void {
  const gauge = metrics.gauge(
    'marketlog_stopped_partitions',
    'Partitions whose stored position is not of the log that is there.',
    ['group'],
  )
  gauge.set({ group }, 0)
  return stopped => {
    gauge.set({ group }, stopped.length)
    const [first] = stopped
    if (first) report(first)
  }
}

/** Closes what is open, or opening, and knows when none is closing any more. */
function openClosing() {
  const all = new Set<Promise<void>>()
  return {
    close(opening: Promise<{ close(): Promise<void> }>): Promise<void> {
      const work = opening.then(
        slot => slot.close(),
        () => undefined,
      )
      all.add(work)
      const forget = () => void all.delete(work)
      work.then(forget, forget)
      return work
    },
    settled: () => Promise.allSettled(all),
  }
}

const nameOf = (topic: TopicKey, partition: number): string => `${topic}/${partition}`

const REOPEN_MS = 2_000
const TICK_MS = 1_000

/** Waits for a promise with a heartbeat every second. */
export async function whileTicking<T>(work: Promise<T>, tick: () => Promise<void>): Promise<T> {
  const settled = work.then(
    () => true,
    () => true,
  )
  for (;;) {
    const timer = new AbortController()
    const isSettled = await Promise.race([settled, delay(TICK_MS, false, { signal: timer.signal })])
    timer.abort()
    if (isSettled) return work
    await tick()
  }
}

const FIRST_PAUSE_MS = 200
const LONGEST_PAUSE_MS = 5_000
const RETRY_LIMIT_MS = 10 * MINUTE_MS

/** Counts failures in a row and returns how long to pause, in milliseconds; throws the error at the limit. */
export interface Backoff {
  failed(error: unknown): number
  succeeded(): void
}

/** Bounded backoff: from 0.2 s to 5 s, for ten minutes of nothing but failures, or ten seconds of refusals. */
export function openBackoff(now: () => number): Backoff {
  let since: number | undefined
  let pause = FIRST_PAUSE_MS
  const refusals = openRefusalLimit(now)
  return {
    failed(error) {
      since ??= now()
      if (refusals.isReached(error) || now() - since > RETRY_LIMIT_MS) throw error
      const current = pause
      pause = Math.min(LONGEST_PAUSE_MS, pause * 2)
      return current
    },
    succeeded() {
      since = undefined
      refusals.answered()
      pause = FIRST_PAUSE_MS
    },
  }
}
