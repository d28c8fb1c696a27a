/**
 * Long work that leaves the event loop to others between its parts.
 *
 * Keeps who waits for a turn. Invariant: each turn of the loop has one part, of whatever work, and those that wait have theirs in the order
 * in which they came: eighteen large answers at once, each with its part in every turn, held the loop for 70 to 170 ms.
 */

/** Work that pauses where it has gone on for some milliseconds. */
export type PausingWork<T> = Generator<undefined, T, void>

const waiting: (() => void)[] = []

/** Resolves when others have had their turn. */
export function nextTurn(): Promise<void> {
  return new Promise(resolve => {
    if (waiting.push(resolve) === 1) setImmediate(giveTurn)
  })
}

function giveTurn(): void {
  waiting.shift()?.()
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
