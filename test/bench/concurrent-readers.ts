/**
 * A few readers that ask one question after the other, and how long each answer took.
 *
 * Node's own client over kept connections, and nothing is kept of a body that is not checked: with `fetch` and the bodies
 * of half a megabyte in one piece this process collected its garbage every 250 ms, and one answer in ten seemed 20 ms
 * slower than it was. Invariant: an answer that is no 200 ends the reading with an error.
 */
import { once } from 'node:events'
import { Agent, get, type IncomingMessage } from 'node:http'

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

/** Reads until it is stopped; `onBody` sees the bytes of each answer. */
export async function readConcurrently(reading: Reading, onBody?: (body: Buffer) => void): Promise<ReadingTimes> {
  const times: ReadingTimes = { firstByteMs: [], wholeMs: [] }
  let asked = 0
  const agent = new Agent({ keepAlive: true, maxSockets: reading.readers })
  const headers = { authorization: `Bearer ${reading.key}`, ...reading.headers }
  const ask = async (): Promise<void> => {
    const startedAt = performance.now()
    const request = get(reading.baseUrl + reading.pathOf(asked++), { agent, headers, signal: reading.signal })
    const [answer] = (await once(request, 'response')) as [IncomingMessage]
    const isOk = answer.statusCode === 200
    const kept: Buffer[] = []
    let firstAt = 0
    for await (const part of answer) {
      firstAt ||= performance.now()
      if (onBody || !isOk) kept.push(part)
    }
    const endedAt = performance.now()
    const body = Buffer.concat(kept)
    if (!isOk) throw new Error(`answered ${answer.statusCode}: ${body.toString().slice(0, 300)}`)
    times.firstByteMs.push(firstAt - startedAt)
    times.wholeMs.push(endedAt - startedAt)
    onBody?.(body)
  }
  const reader = async (): Promise<void> => {
    while (reading.goesOn(asked)) await ask()
  }
  try {
    await Promise.all(Array.from({ length: reading.readers }, reader))
    return times
  } finally {
    agent.destroy()
  }
}
