/**
 * A bound on how much runs at a time: nothing waits, and what exceeds it is refused.
 *
 * What was acquired is free again after its first release, however often that is called.
 */

/** A bound on one kind of work. */
export interface ConcurrencyLimit {
  /** Returns the release of what it has acquired; undefined when the limit is reached. */
  tryAcquire(): (() => void) | undefined
}

/** Opens a limit; `onChange` receives how much is acquired. */
export function openConcurrencyLimit(
  most: number,
  onChange: (acquired: number) => void = () => undefined,
): ConcurrencyLimit {
  let acquired = 0
  const change = (by: number): void => {
    acquired += by
    onChange(acquired)
  }
  return {
    tryAcquire() {
      if (acquired >= most) return undefined
      change(1)
      let isHeld = true
      return () => {
        if (isHeld) change(-1)
        isHeld = false
      }
    },
  }
}
