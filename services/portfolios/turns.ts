/**
 * Lets the writers of one portfolio in this process go one after the other.
 *
 * Holds work in memory, writes nothing. The lock of the row is what keeps writers of all processes apart; this only keeps
 * those who would wait for it from holding all connections meanwhile. Invariant: work of one key runs in the
 * order in which it came, work of other keys is not held up, and no more than `waitingMax` wait for a key.
 */
import { Refusal } from './refusal.ts'

/** Turns by key. */
export interface Turns {
  /** Runs work when all earlier work of the key is done; refuses it when too much waits already. */
  take<T>(key: string, work: () => Promise<T>): Promise<T>
}

/** Opens the turns. */
export function openTurns(waitingMax = 64): Turns {
  const lines = new Map<string, { waiting: number; last: Promise<unknown> }>()
  return {
    async take(key, work) {
      const line = lines.get(key) ?? { waiting: 0, last: Promise.resolve() }
      if (line.waiting >= waitingMax) {
        throw new Refusal('SERVICE_UNAVAILABLE', 'Too many writes to this portfolio wait already; try again soon.')
      }
      line.waiting += 1
      const mine = line.last.then(work, work)
      line.last = mine
      lines.set(key, line)
      try {
        return await mine
      } finally {
        line.waiting -= 1
        if (line.waiting === 0) lines.delete(key)
      }
    },
  }
}
