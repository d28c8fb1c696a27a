/**
 * One serial queue per key, for the writers of one portfolio in this process.
 *
 * The lock of the row keeps writers of all processes apart; the queue only keeps those who would wait for that lock from
 * holding all connections meanwhile. Work of one key runs in the order in which it came, work of other keys is not held
 * up, and no more than `waitingMax` wait for a key.
 */
import PQueue from 'p-queue'
import { HttpError } from '#infra/http/http-error.ts'

/** Queues by key, each of which runs one task at a time. */
export interface SerialQueues {
  /** Runs work when all earlier work of the key is done; refuses it when too much waits already. */
  add<T>(key: string, work: () => Promise<T>): Promise<T>
}

/** Opens the queues. */
export function openSerialQueues(waitingMax = 64): SerialQueues {
  const queues = new Map<string, PQueue>()
  const open = (key: string): PQueue => {
    const queue = new PQueue({ concurrency: 1 })
    queue.addEventListener('idle', () => queues.delete(key))
    queues.set(key, queue)
    return queue
  }
  return {
    async add(key, work) {
      const queue = queues.get(key) ?? open(key)
      if (queue.size + queue.pending >= waitingMax) {
        throw new HttpError('SERVICE_UNAVAILABLE', 'Too many writes to this portfolio wait already; try again soon.')
      }
      return queue.add(work)
    },
  }
}
