/**
 * So many at a time, and nobody waits: who finds no seat is told to come back.
 *
 * Invariant: a seat that was taken is free again after its first release, however often that is called.
 */

/** Seats of one kind. */
export interface Seats {
  /** Takes a seat and returns what gives it back; undefined when none is free. */
  take(): (() => void) | undefined
}

/** Opens free seats; `onChange` hears how many are taken. */
export function openSeats(count: number, onChange: (taken: number) => void = () => undefined): Seats {
  let taken = 0
  const change = (by: number): void => {
    taken += by
    onChange(taken)
  }
  return {
    take() {
      if (taken >= count) return undefined
      change(1)
      let isHeld = true
      return () => {
        if (isHeld) change(-1)
        isHeld = false
      }
    },
  }
}
