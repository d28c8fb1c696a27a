/**
 * Runs one task at a time, in the order of asking.
 *
 * A task that fails ends like one that succeeds: only its caller gets the error.
 */

/** A queue that runs its tasks one after the other. */
export interface SerialQueue {
  add<T>(task: () => Promise<T>): Promise<T>
}

/** Opens an empty queue. */
export function openSerialQueue(): SerialQueue {
  let last: Promise<unknown> = Promise.resolve()
  return {
    add(task) {
      const result = last.then(task)
      last = result.catch(() => undefined)
      return result
    },
  }
}
