/**
 * A few readers that ask one question after the other, and how long each answer took.
 *
 * Plain `fetch`: what is measured here takes milliseconds, so the client's own work weighs little. Invariant: an answer
 * that is no 200 ends the reading with an error.
 */

/** How reading goes on. */
export interface Reading {
  baseUrl: string
  key: string
  readers: number
  /** The path of the n-th question. */
  pathOf(n: number): string
  /** Whether to ask on after n questions. */
  goesOn(n: number): boolean
  signal: AbortSignal
  headers?: Record<string, string>
}

/** How long answers took, in milliseconds: to the first byte of the body, and to its end. */
export interface ReadingTimes {
  firstByteMs: number[]
  wholeMs: number[]
}

/** Reads until told to stop; `onBody` sees the bytes of each answer. */
export async function readConcurrently(reading: Reading, onBody?: (body: Buffer) => void): Promise<ReadingTimes> {
  const times: ReadingTimes = { firstByteMs: [], wholeMs: [] }
  let asked = 0
  const ask = async (): Promise<void> => {
    const startedAt = performance.now()
    const answer = await fetch(reading.baseUrl + reading.pathOf(asked++), {
      headers: { authorization: `Bearer ${reading.key}`, ...reading.headers },
      signal: reading.signal,
    })
    const parts: Uint8Array[] = []
    let firstAt = 0
    for await (const part of answer.body ?? []) {
      firstAt ||= performance.now()
      parts.push(part)
    }
    const endedAt = performance.now()
    const body = Buffer.concat(parts)
    if (answer.status !== 200) throw new Error(`answered ${answer.status}: ${body.toString().slice(0, 300)}`)
    times.firstByteMs.push(firstAt - startedAt)
    times.wholeMs.push(endedAt - startedAt)
    onBody?.(body)
  }
  const reader = async (): Promise<void> => {
    while (reading.goesOn(asked)) await ask()
  }
  await Promise.all(Array.from({ length: reading.readers }, reader))
  return times
}
