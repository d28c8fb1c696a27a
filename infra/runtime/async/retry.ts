import pRetry, { type Options } from 'p-retry'

/** Repeats work that fails, with equal pauses, until the limit has passed; rejects with its last error. */
export const retryFor = <T>(
  limitMs: number,
  pauseMs: number,
  work: () => Promise<T>,
  options: Pick<Options, 'shouldRetry' | 'signal'> = {},
): Promise<T> =>
  pRetry(work, {
    ...options,
    retries: Number.POSITIVE_INFINITY,
    maxRetryTime: limitMs,
    minTimeout: pauseMs,
    factor: 1,
  })

/** Whether work succeeds, where its error is of no interest. */
export const succeeds = (work: Promise<unknown>): Promise<boolean> =>
  work.then(
    () => true,
    () => false,
  )
