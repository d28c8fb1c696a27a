/**
 * Lets one piece of work run at a time, in the order of asking.
 *
 * Invariant: work that fails ends its turn like work that succeeds; its caller hears of it, nobody else does.
 */

/** Turns that are taken one after the other. */
export interface Turns {
  take<T>(work: () => Promise<T>): Promise<T>
}

/** Opens a row of turns. */
export function openTurns(): Turns {
  let last: Promise<unknown> = Promise.resolve()
  return {
    take(work) {
      const turn = last.then(work)
      last = turn.catch(() => undefined)
      return turn
    },
  }
}
