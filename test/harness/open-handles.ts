/**
 * Finds what a test file leaves open: what keeps a process alive, as Node counts it by kind (`ProcessWrap`, `TCPSocketWrap`,
 * `Timeout`). What was unref'd does not count.
 *
 * Keeps the counts that are allowed: those from before the file, and what the servers of the run hold.
 */
import { setTimeout as pause } from 'node:timers/promises'

const POLL_MS = 20

/** Mocha's limit of a hook is a timer too, which it sets when the hook has returned a promise: it counts before a file and after. */
const hookTimer = Promise.resolve()

let allowed: readonly string[] = []

/** Kinds that are open in `now` and not in `before`, one entry each. */
function without(now: readonly string[], before: readonly string[]): string[] {
  const left = [...before]
  return now.filter(kind => {
    const at = left.indexOf(kind)
    if (at >= 0) left.splice(at, 1)
    return at < 0
  })
}

export async function allowOpenHandles(): Promise<void> {
  await hookTimer
  allowed = process.getActiveResourcesInfo()
}

export async function allowHandlesOf<T>(work: () => Promise<T>): Promise<T> {
  const before = process.getActiveResourcesInfo()
  const result = await work()
  allowed = [...allowed, ...without(process.getActiveResourcesInfo(), before)]
  return result
}

/** Waits until nothing is open beyond what is allowed; throws after the limit, and allows what it has named. */
export async function expectNoOpenHandles(limitMs: number, file: string): Promise<void> {
  await hookTimer
  const startedAt = performance.now()
  for (;;) {
    const left = without(process.getActiveResourcesInfo(), allowed)
    if (left.length === 0) return
    if (performance.now() - startedAt > limitMs) {
      await allowOpenHandles()
      throw new Error(`${file} left open: ${left.join(', ')}`)
    }
    await pause(POLL_MS)
  }
}
