/**
 * A few readers in a process of their own, for answers that are measured while the bench publishes.
 *
 * Encoding a refresh of 30,000 offers keeps a process for tens of milliseconds: readers beside it in the same one took
 * that for the server's time.
 */
import { answerAsBaseline } from '../baseline.ts'
import { type ReadingTimes, readConcurrently } from '../concurrent-readers.ts'

/** Whom to read from, what, and for how long. */
export interface TimedReading {
  baseUrl: string
  key: string
  readers: number
  /** Asked in turn. */
  paths: readonly string[]
  forMs: number
}

answerAsBaseline({
  read({ paths, forMs, ...reading }: TimedReading): Promise<ReadingTimes> {
    const until = performance.now() + forMs
    return readConcurrently({
      ...reading,
      pathOf: n => paths[n % paths.length] as string,
      goesOn: () => performance.now() < until,
      signal: AbortSignal.timeout(forMs * 2),
    })
  },
})
