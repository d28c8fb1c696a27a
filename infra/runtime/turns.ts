/**
 * Long work that leaves the event loop to others between its parts.
 *
 * Keeps who waits for a turn. Invariant: each turn of the loop has one part at most, of whatever work, and those that wait have theirs in
 * the order in which they came: eighteen large answers at once, each with its part in every turn, held the loop for 70 to 170 ms.
 * While others keep the loop busy they have {@link OTHERS_SHARE} times as long as the part before; an idle loop goes on at once.
 */

const OTHERS_SHARE = 3
/** A turn of less than that had nothing to do. */
const IDLE_TURN_MS = 0.5

/** Work that pauses where it has gone on for some milliseconds. */
export type PausingWork<T> = Generator<undefined, T, void>

const waiting: (() => void)[] = []
/** When the last part began and ended, and when the loop was last looked at. */
let [beganAt, endedAt, lookedAt] = [0, 0, 0]

/** Resolves when others have had their turn. */
export function nextTurn(): Promise<void> {
  return new Promise(resolve => {
    if (waiting.push(resolve) === 1) setImmediate(giveTurn)
  })
}

function giveTurn(): void {
  const now = performance.now()
  const isBusy = now - Math.max(lookedAt, endedAt) > IDLE_TURN_MS
  if (!isBusy || now - endedAt > OTHERS_SHARE * (endedAt - beganAt)) {
    beganAt = now
    waiting.shift()?.()
    // Behind the part: what waits goes on in a microtask.
    queueMicrotask(() => {
      endedAt = performance.now()
    })
  }
  lookedAt = now
  if (waiting.length > 0) setImmediate(giveTurn)
}

/** Lets others have their turn at each pause. */
export async function inTurns<T>(work: PausingWork<T>): Promise<T> {
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
    await nextTurn()
  }
}

/** Where nothing else waits. */
export function atOnce<T>(work: PausingWork<T>): T {
  for (;;) {
    const { done, value } = work.next()
    if (done) return value
  }
}
