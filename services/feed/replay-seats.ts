/**
 * The seats of replays: so many read the log at a time, each with a fetch in memory, and others wait for their turn.
 *
 * States of a replay: waiting -> seated -> waiting again, or over. A replay that waits for its time or for its client gives its seat
 * back; one that reads on gives it back when its time slice is over and others wait, in the order in which they came. As many
 * wait as replays are open, which their handler bounds.
 */

/** A seat that is held. */
export interface ReplaySeat {
  /** Whether it is another's turn. */
  isOver(): boolean
  /** Gives it back; once, however often it is called. */
  release(): void
}

/** The seats of a process. */
export interface ReplaySeats {
  /** Resolves with the next free seat; rejects when the signal aborts. */
  take(signal: AbortSignal): Promise<ReplaySeat>
}

const TIME_SLICE_MS = 5_000

/** Opens seats; `now` is a monotonic clock in milliseconds. */
export function openReplaySeats(count: number, now: () => number): ReplaySeats {
  const waiting = new Set<(seat: ReplaySeat) => void>()
  let free = count

  const seat = (): ReplaySeat => {
    const takenAt = now()
    let isHeld = true
    return {
      isOver: () => waiting.size > 0 && now() - takenAt >= TIME_SLICE_MS,
      release() {
        if (isHeld) free += 1
        isHeld = false
        assign()
      },
    }
  }
  function assign(): void {
    for (const give of waiting) {
      if (free === 0) return
      free -= 1
      waiting.delete(give)
      give(seat())
    }
  }
  return {
    async take(signal) {
      signal.throwIfAborted()
      const { promise, resolve, reject } = Promise.withResolvers<ReplaySeat>()
      const abort = (): void => {
        waiting.delete(resolve)
        reject(signal.reason)
      }
      signal.addEventListener('abort', abort, { once: true })
      waiting.add(resolve)
      assign()
      return await promise.finally(() => signal.removeEventListener('abort', abort))
    },
  }
}
