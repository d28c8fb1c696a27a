/**
 * One connection to the log for all streams that resume from a topic's past in this process; a replay has one of its own.
 *
 * States: closed -> open (at the first use) -> dropped (after a failure that the reader does not recover from) -> open.
 * A use that fails with a dropped reader is retried with the next one. Invariant: at most one reader is open or being opened,
 * and every use ends within its limit.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { isOutOfRange, type RangeReader } from '#infra/kafka/range-reader.ts'

/** A reader that is shared. */
export interface SharedReader {
  /** Runs work with the reader; retries with another one while that fails, for `limitMs`. */
  use<T>(work: (reader: RangeReader) => Promise<T>, limitMs: number): Promise<T>
  close(): Promise<void>
}

const AGAIN_MS = 100

/** Shares what `open` opens; opens nothing until it is used. */
export function openSharedReader(open: () => Promise<RangeReader>): SharedReader {
  let current: Promise<RangeReader> | undefined
  let isClosed = false
  const drop = async (failed: Promise<RangeReader>): Promise<void> => {
    if (current === failed) current = undefined
    await failed.then(reader => reader.close()).catch(() => undefined)
  }
  return {
    async use(work, limitMs) {
      const limit = performance.now() + limitMs
      for (;;) {
        if (isClosed) throw new Error('the reader of the log is closed')
        current ??= open()
        const used = current
        try {
          return await work(await used)
        } catch (error) {
          if (isOutOfRange(error)) throw error
          // The reader finds new leaders by itself.
          if ((error as { retriable?: boolean }).retriable !== true && current === used) void drop(used)
          if (performance.now() > limit) throw error
          await delay(AGAIN_MS)
        }
      }
    },
    async close() {
      isClosed = true
      if (current !== undefined) await drop(current)
    },
  }
}
