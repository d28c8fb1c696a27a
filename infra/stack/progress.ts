const QUIET_MS = 2_000
const EVERY_MS = 3_000

/** Runs the work; while it lasts longer than two seconds, says `what` with the seconds gone by. */
export async function sayWhile<T>(say: (line: string) => void, what: string, work: () => Promise<T>): Promise<T> {
  const startedAt = performance.now()
  const speak = () => {
    say(`${what} (${Math.round((performance.now() - startedAt) / 1000)} s)`)
    timer = setTimeout(speak, EVERY_MS)
  }
  let timer = setTimeout(speak, QUIET_MS)
  try {
    return await work()
  } finally {
    clearTimeout(timer)
  }
}
