/** Waiting in tests: a condition and a limit, never a sleep. It must not be used to prove that something does not happen. */
import { setTimeout as pause } from 'node:timers/promises'

/** A safety net: ten times what an idle machine needs for anything that a test waits for, and below mocha's limit of a test. */
const LIMIT_MS = 60_000
const FIRST_POLL_MS = 5
const LONGEST_POLL_MS = 200

/**
 * Resolves with the condition's value once that is neither undefined nor false.
 *
 * A condition that throws (an assertion, say) does not hold yet; its error is the reason given when
 * `limitMs` is over. `what` completes the sentence "waited N s for …".
 */
export async function eventually<T>(
  condition: () => T | Promise<T>,
  what = 'a condition',
  limitMs = LIMIT_MS,
): Promise<Exclude<T, undefined | false>> {
  const startedAt = performance.now()
  let pollMs = FIRST_POLL_MS
  for (;;) {
    let seen: unknown
    try {
      const value = await condition()
      if (value !== undefined && value !== false) return value as Exclude<T, undefined | false>
      seen = value
    } catch (error) {
      seen = error
    }
    const waitedMs = performance.now() - startedAt
    if (waitedMs >= limitMs) {
      const reason = seen instanceof Error ? seen.message : `it was ${String(seen)}`
      throw new Error(`waited ${(waitedMs / 1000).toFixed(1)} s for ${what}: ${reason}`, { cause: seen })
    }
    await pause(Math.min(pollMs, limitMs - waitedMs))
    pollMs = Math.min(pollMs * 1.5, LONGEST_POLL_MS)
  }
}

/** Rejects when a promise is not settled within the limit; the promise itself goes on. */
export async function within<T>(promise: Promise<T>, what = 'a result', limitMs = LIMIT_MS): Promise<T> {
  const timer = new AbortController()
  const limit = pause(limitMs, undefined, { signal: timer.signal }).then(() => {
    throw new Error(`waited ${limitMs / 1000} s for ${what}`)
  })
  try {
    return await Promise.race([promise, limit])
  } finally {
    timer.abort()
    limit.catch(() => {})
  }
}
