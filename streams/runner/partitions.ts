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
import { type Source, Stopped, sourceName } from './positions.ts'

interface Entry<P> extends Source {
  opening: Promise<P>
  opened: P | undefined
}

export type Partitions<P extends { close(): Promise<void> }> = ReturnType<typeof openPartitions<P>>

/** Keeps what `open` opens; `onStopped` gets those that stay closed since their position is not of the log that is there. */
export function openPartitions<P extends { close(): Promise<void> }>(
  open: (source: Source, resumeAt: ResumeAt) => Promise<P>,
  log: Log,
  onStopped: (stopped: readonly Stopped[]) => void = () => undefined,
) {
  let entries = new Map<string, Entry<P>>()
  const stopped = new Map<string, Stopped>()
  const noteOpening = openNotes(stopped, log, onStopped)
  let resume: ResumeAt | undefined
  const start = ({ topic, partition }: Source): Entry<P> => {
    const opening = resume ? open({ topic, partition }, resume) : Promise.reject(new Error('nothing is assigned yet'))
    const entry: Entry<P> = { topic, partition, opening, opened: undefined }
    const name = sourceName(entry)
    entries.set(name, entry)
    opening.then(
      opened => {
        entry.opened = opened
        noteOpening(name, undefined)
      },
      async error => {
        noteOpening(name, error)
        await delay(REOPEN_MS)
        // A partition without records is opened by nothing else.
        if (entries.get(name) === entry) start(entry)
      },
    )
    return entry
  }
  /** Dropped ones included. */
  const closing = new Set<Promise<void>>()
  const close = ({ opening }: Entry<P>): Promise<void> => {
    const work = opening.then(
      opened => opened.close(),
      () => undefined,
    )
    closing.add(work)
    const forget = () => void closing.delete(work)
    work.then(forget, forget)
    return work
  }
  const closeSoon = (entry: Entry<P>): void =>
    void close(entry).catch(error => log.debug({ error }, 'closing a partition'))
  return {
    /** Drops all and opens those of the new generation. */
    replace(sources: readonly Source[], resumeAt: ResumeAt): void {
      const former = entries
      entries = new Map()
      stopped.clear()
      resume = resumeAt
      for (const entry of former.values()) closeSoon(entry)
      for (const source of sources) start(source)
    },
    /** A partition, opened when need be; ticks while it waits. */
    get: (source: Source, tick: () => Promise<void>): Promise<P> =>
      whileTicking((entries.get(sourceName(source)) ?? start(source)).opening, tick),
    async drop(source: Source): Promise<void> {
      const entry = entries.get(sourceName(source))
      entries.delete(sourceName(source))
      if (entry) await close(entry)
    },
    /** Drops what was opened and opens it again at once, unless that has happened by now; without an argument all that are open. */
    reopen(opened?: P): void {
      for (const entry of [...entries.values()]) {
        if (entry.opened === undefined || (opened !== undefined && entry.opened !== opened)) continue
        closeSoon(entry)
        start(entry)
      }
    },
    all: () =>
      [...entries.values()].flatMap(({ topic, partition, opened }) => (opened ? [{ topic, partition, opened }] : [])),
    peek: (source: Source): P | undefined => entries.get(sourceName(source))?.opened,
    /** Undefined when every assigned partition is open, else why not. */
    state: (): string | undefined =>
      resume ? (stopped.values().next().value?.message ?? waitingOf([...entries.values()])) : 'joining its group',
    /** Closes all; resolves when none is opening or closing any more. */
    async close(): Promise<void> {
      await Promise.all([...entries.values()].map(close))
      // One of an earlier generation that is still opening may write: its store may close only afterwards.
      await Promise.allSettled(closing)
      entries.clear()
    },
  }
}

function waitingOf(entries: readonly Entry<unknown>[]): string | undefined {
  const waiting = entries.filter(entry => entry.opened === undefined).length
  return waiting === 0 ? undefined : `opening ${waiting} of ${entries.length} partitions`
}

/** Notes of a partition that it is open, or why not. */
const openNotes =
  (stopped: Map<string, Stopped>, log: Log, onStopped: (stopped: readonly Stopped[]) => void) =>
  (name: string, error: unknown): void => {
    const isStopped = error instanceof Stopped
    if (error !== undefined && !isStopped)
      log.warn({ error, partition: name }, 'a partition could not be opened; it is tried again')
    if (isStopped && stopped.get(name)?.message !== error.message) log.error(error.message)
    if (isStopped) stopped.set(name, error)
    else if (!stopped.delete(name)) return
    onStopped([...stopped.values()])
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
): { close(): Promise<void> } {
  /** Whether a store holds something else than its owner left, and no batch has begun meanwhile. */
  const isReplaced = async (opened: P): Promise<boolean> => {
    const { batchSequence, isCurrent } = opened
    if (isCurrent === undefined || batchSequence % 2 === 1) return false
    try {
      return !(await isCurrent()) && opened.batchSequence === batchSequence
    } catch (error) {
      log.debug({ error }, 'a store could not be checked')
      return false
    }
  }
  const stop = new AbortController()
  const watch = async (): Promise<void> => {
    for (;;) {
      await delay(CHECK_EVERY_MS, undefined, { signal: stop.signal })
      const open = partitions.all()
      const areReplaced = await Promise.all(open.map(({ opened }) => isReplaced(opened)))
      for (const [at, { topic, partition, opened }] of open.entries()) {
        if (!areReplaced[at] || stop.signal.aborted || partitions.peek({ topic, partition }) !== opened) continue
        log.warn({ topic, partition }, 'the view of a partition is not what was left there; it is opened again')
        partitions.reopen(opened)
      }
    }
  }
  // It ends by the abort alone.
  const watching = watch().catch(() => undefined)
  return {
    async close() {
      stop.abort()
      await watching
    },
  }
}
