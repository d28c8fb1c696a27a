/**
 * A bound on how much runs at a time: nothing waits, and what exceeds it is refused.
 *
 * What was acquired is free again after its first release, however often that is called.
 */
import { HttpError } from '#infra/http/http-error.ts'

/** Clients that are refused together must not come back together. */
const SPREAD_SECONDS = 10

/** A bound on one kind of work. */
export interface ConcurrencyLimit {
  /** Returns the release of what it has acquired, or refuses a client, each with a time of its own to come back. */
  acquire(): () => void
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
    acquire() {
      if (acquired >= most) throw refusal()
      change(1)
      let isHeld = true
      return () => {
        if (isHeld) change(-1)
        isHeld = false
      }
    },
  }
}

const refusal = (): HttpError =>
  new HttpError('SERVICE_UNAVAILABLE', 'Too many streams read the past at the moment; wait as Retry-After says.', {
    headers: ['Retry-After', String(1 + Math.floor(Math.random() * SPREAD_SECONDS))],
  })
