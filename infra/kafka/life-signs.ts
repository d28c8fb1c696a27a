/**
 * Says that the brokers are away, how long, and what to look at; and that they are back.
 *
 * The client retries by itself and in silence, so without this a role that waits for its log looks like one that has
 * nothing to do. States: well → in trouble (a connection was refused or broke, or nothing was answered for a while) →
 * well again at the next answer. One line at the begin of a trouble, one every half minute, one at its end.
 */
import type { Log } from '../runtime/log.ts'

/** The signs of life of one client. */
export interface LifeSigns {
  /** A broker has answered. */
  heard(): void
  /** A connection was refused or broke. */
  lost(reason: string): void
  /** What is wrong, for people; undefined while all is well. */
  trouble(): string | undefined
  close(): void
}

/** What the signs are watched with. */
export interface LifeSignOptions {
  /** Who waits: `the group book`. */
  who: string
  brokers: readonly string[]
  log: Log
  /** Whether an answer is owed now; one that asks nothing hears nothing. */
  isWaiting(): boolean
}

const LOOK_EVERY_MS = 1_000
/** Longer than a group may take to rebalance, during which its members are not answered. */
const SILENT_AFTER_MS = 18_000
/** A connection that broke alone, and was made again at once, is not worth a word. */
const LOST_AFTER_MS = 1_000
const SAY_EVERY_MS = 30_000

/** Begins to watch. */
export function openLifeSigns({ who, brokers, log, isWaiting }: LifeSignOptions): LifeSigns {
  let heardAt = performance.now()
  let lost: { reason: string; at: number } | undefined
  let saidAt: number | undefined
  const trouble = (): string | undefined => {
    const now = performance.now()
    const isLost = lost !== undefined && now - lost.at > LOST_AFTER_MS
    if (!isLost && now - heardAt < SILENT_AFTER_MS) return undefined
    const seconds = Math.round((now - heardAt) / 1_000)
    const why = lost === undefined ? '' : ` (${lost.reason})`
    return `Kafka at ${brokers.join(', ')} has not answered ${who} for ${seconds} s${why}`
  }
  const look = (): void => {
    const now = performance.now()
    if (!isWaiting()) {
      heardAt = now
      lost = undefined
    }
    const found = trouble()
    if (found === undefined) {
      if (saidAt !== undefined) log.info({ brokers }, `Kafka answers ${who} again`)
      saidAt = undefined
    } else if (saidAt === undefined || now - saidAt >= SAY_EVERY_MS) {
      saidAt = now
      log.warn(
        { brokers },
        `${found}; it waits and goes on by itself. Check that a broker runs and that its disk has room`,
      )
    }
  }
  const timer = setInterval(look, LOOK_EVERY_MS).unref()
  return {
    heard() {
      heardAt = performance.now()
      lost = undefined
    },
    lost(reason) {
      lost = { reason, at: lost?.at ?? performance.now() }
    },
    trouble,
    close: () => clearInterval(timer),
  }
}
