/** Whether a failed attempt is repeated, and when. */
import { MarketlogConnectionError, MarketlogError } from './errors.ts'

const FIRST_MS = 200
const LONGEST_MS = 10_000

/** A wait that doubles with each failure in a row; drawn, since clients that failed together must not come back together. */
export const backoffMs = (failures: number, random = Math.random): number =>
  Math.min(LONGEST_MS, FIRST_MS * 2 ** failures) * (0.5 + random() / 2)

/**
 * How long to wait before the next attempt; undefined: there is none.
 *
 * A 429 has done nothing, whatever the method. A 503 or a lost connection may come after the work was done, so only what is
 * repeatable is sent again.
 */
export function retryDelayMs(
  error: unknown,
  { attempts, elapsedMs, isRepeatable }: { attempts: number; elapsedMs: number; isRepeatable: boolean },
  { retries, retryWithinMs }: { retries: number; retryWithinMs: number },
): number | undefined {
  const isRetried =
    error instanceof MarketlogError
      ? error.status === 429 || (error.status === 503 && isRepeatable)
      : error instanceof MarketlogConnectionError && isRepeatable
  if (!isRetried || attempts > retries) return undefined
  const delayMs = waitMs(error, attempts - 1)
  return elapsedMs + delayMs > retryWithinMs ? undefined : delayMs
}

/** The wait that the answer asks for, else the backoff. */
export const waitMs = (error: unknown, failures: number): number =>
  error instanceof MarketlogError && error.retryAfterSeconds !== undefined
    ? error.retryAfterSeconds * 1000
    : backoffMs(failures)

/** Rejects with the reason of the signal as soon as it aborts. */
export const pause = (ms: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    signal?.throwIfAborted()
    const onAbort = (): void => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    }, ms)
    signal?.addEventListener('abort', onAbort, { once: true })
  })
