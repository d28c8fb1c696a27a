/** Watches how long the event loop of this process works without a pause. */

/** A watch that runs. */
export interface LoopWatch {
  /** Ends it; the longest stretch in milliseconds of processor time, so that a busy machine does not count. */
  stop(): number
}

/** Watches from now on. */
export function watchLoop(): LoopWatch {
  let longestMs = 0
  let isOver = false
  let before = cpuMs()
  const beat = (): void => {
    const now = cpuMs()
    longestMs = Math.max(longestMs, now - before)
    before = now
    if (!isOver) setImmediate(beat)
  }
  setImmediate(beat)
  return {
    stop() {
      isOver = true
      return longestMs
    },
  }
}

function cpuMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}
