/**
 * The partitions of a group member, each of which is opened, watched and closed.
 *
 * Every assigned partition is opened at once, since an empty one has a view too; `open` gets the function that resumes it at the view's
 * position. A new generation drops all: between two generations another owner may have moved the view. Invariant: a partition is opened
 * at most once at a time, and what is dropped is closed.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { ResumeAt } from '#infra/kafka/group-consumer.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { RoleContext } from '#infra/runtime/role.ts'
import type { TopicKey } from '#schemas/topics.ts'
import { Stopped } from './positions.ts'

/** Opens and closes the partitions of a group member; `P` is what an opened one is. */
export interface Partitions<P> {
  /** Drops all and opens those of the new generation. */
  replace(partitions: readonly { topic: TopicKey; partition: number }[], resumeAt: ResumeAt): void
  /** A partition, opened when need be; ticks while it waits. */
  get(topic: TopicKey, partition: number, tick: () => Promise<void>): Promise<P>
  /** Drops a partition after a failure; the next `get` opens it again. */
  drop(topic: TopicKey, partition: number): Promise<void>
  /** Drops what was opened and opens it again at once, unless that has happened by now; without an argument all that are open. */
  reopen(opened?: P): void
  /** Those that are open now. */
  all(): { topic: TopicKey; partition: number; opened: P }[]
  peek(topic: TopicKey, partition: number): P | undefined
  /** Undefined when every assigned partition is open, else why not. */
  state(): string | undefined
  /** Closes all; resolves when none is opening or closing any more, dropped ones included. */
  close(): Promise<void>
}

interface Entry<P> {
  topic: TopicKey
  partition: number
  opening: Promise<P>
  opened: P | undefined
}

/** Keeps what `open` opens. */
export function openPartitions<P extends { close(): Promise<void> }>(
  open: (topic: TopicKey, partition: number, resumeAt: ResumeAt) => Promise<P>,
  log: Log,
  onStopped: (stopped: readonly Stopped[]) => void = () => undefined,
): Partitions<P> {
  let entries = new Map<string, Entry<P>>()
  const stops = openStops(log, onStopped)
  let resume: ResumeAt | undefined
  const start = (topic: TopicKey, partition: number): Entry<P> => {
    const opening = resume ? open(topic, partition, resume) : Promise.reject(new Error('nothing is assigned yet'))
    const entry: Entry<P> = { topic, partition, opening, opened: undefined }
    const name = nameOf(topic, partition)
    entries.set(name, entry)
    entry.opening.then(
      opened => {
        entry.opened = opened
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
  const closeEntry = ({ opening }: Entry<P>): Promise<void> => closing.close(opening)
  const closeSoon = (entry: Entry<P>): void =>
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
    reopen(opened) {
      for (const entry of [...entries.values()]) {
        if (entry.opened === undefined || (opened !== undefined && entry.opened !== opened)) continue
        closeSoon(entry)
        start(entry.topic, entry.partition)
      }
    },
    all: () =>
      [...entries.values()].flatMap(({ topic, partition, opened }) => (opened ? [{ topic, partition, opened }] : [])),
    peek: (topic, partition) => entries.get(nameOf(topic, partition))?.opened,
    state: () => (resume ? (stops.first() ?? waitingOf([...entries.values()])) : 'joining its group'),
    async close() {
      await Promise.all([...entries.values()].map(closeEntry))
      // One of an earlier generation that is still opening may write: its store may close only afterwards.
      await closing.settled()
      entries.clear()
    },
  }
}

function waitingOf(entries: readonly Entry<unknown>[]): string | undefined {
  const waiting = entries.filter(entry => entry.opened === undefined).length
  return waiting === 0 ? undefined : `opening ${waiting} of ${entries.length} partitions`
}

/** The partitions that stay closed since their position is not of the log that is there. */
function openStops(log: Log, onChange: (stopped: readonly Stopped[]) => void) {
  const stopped = new Map<string, Stopped>()
  return {
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
        opened => opened.close(),
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

export interface WatchedPartition {
  /** Raised at the begin and at the end of each batch; odd while one is under way. */
  batchSequence: number
  /** Whether the store holds what was last read or written; undefined where nothing is stored. */
  isCurrent: (() => Promise<boolean>) | undefined
  close(): Promise<void>
}

const CHECK_EVERY_MS = 2_000

/**
 * Notices that a view is no longer what its owner left: wiped, or replaced by an older copy, while no record comes.
 *
 * Checks the open partitions of a member, a few seconds apart, and reopens those, all at once, whose store holds something else: a batch
 * would find out by itself, but a view that changes once an hour would stay empty for an hour. One with a batch under way is left alone,
 * and so is one whose store does not answer.
 */
export function watchStores<P extends WatchedPartition>(
  partitions: Partitions<P>,
  log: Log,
  everyMs: number = CHECK_EVERY_MS,
): { close(): Promise<void> } {
  /** Resolves with a function that reopens the partition where its store holds something else. */
  const check = async ({ topic, partition, opened }: ReturnType<Partitions<P>['all']>[number]): Promise<() => void> => {
    const { batchSequence } = opened
    if (opened.isCurrent === undefined || batchSequence % 2 === 1 || (await opened.isCurrent())) return () => undefined
    return () => {
      if (isClosed || opened.batchSequence !== batchSequence || partitions.peek(topic, partition) !== opened) return
      log.warn({ topic, partition }, 'the view of a partition is not what was left there; it is opened again')
      partitions.reopen(opened)
    }
  }
  let isClosed = false
  const checkAll = async (): Promise<void> => {
    for (const checked of await Promise.allSettled(partitions.all().map(check))) {
      if (checked.status === 'fulfilled') checked.value()
      else log.debug({ error: checked.reason }, 'a store could not be checked')
    }
  }
  let checking = Promise.resolve()
  const arm = (): NodeJS.Timeout =>
    setTimeout(() => {
      checking = checkAll().then(() => {
        if (!isClosed) timer = arm()
      })
    }, everyMs)
  let timer = arm()
  return {
    async close() {
      isClosed = true
      clearTimeout(timer)
      await checking
    },
  }
}
