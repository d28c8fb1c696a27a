/**
 * A few readers that ask one question after the other, and how long each answer took, in a process of their own: encoding a refresh
 * keeps the bench's for tens of milliseconds, which readers in it took for the server's time.
 *
 * Node's own client over kept connections, and nothing is kept of a body: with `fetch` and bodies of half a megabyte in one piece the
 * process collected its garbage every 250 ms, and one answer in ten seemed 20 ms slower than it was. Invariant: an answer that is no
 * 200, or none that ends, ends the reading with an error.
 */
import { once } from 'node:events'
import { Agent, get, type IncomingMessage } from 'node:http'
import { answerAsBaseline } from '../baseline.ts'

export interface Reading {
  baseUrl: string
  key: string
  readers: number
  /** Asked in turn. */
  paths: readonly string[]
  until: { ms: number } | { answers: number }
  headers?: Record<string, string>
}

/** How long answers took, in milliseconds: to the first byte of the body, and to its end. */
export interface ReadingTimes {
  firstByteMs: number[]
  wholeMs: number[]
}

const LIMIT_MS = 30_000

async function read({ baseUrl, key, readers, paths, until, headers }: Reading): Promise<ReadingTimes> {
  const times: ReadingTimes = { firstByteMs: [], wholeMs: [] }
  const agent = new Agent({ keepAlive: true, maxSockets: readers })
  const endsAt = 'ms' in until ? performance.now() + until.ms : Number.POSITIVE_INFINITY
  const answers = 'answers' in until ? until.answers : Number.POSITIVE_INFINITY
  let asked = 0
  const reader = async (): Promise<void> => {
    while (asked < answers && performance.now() < endsAt) {
      const path = paths[asked++ % paths.length] as string
      const startedAt = performance.now()
      const options = { agent, headers: { authorization: `Bearer ${key}`, ...headers } }
      const request = get(baseUrl + path, { ...options, signal: AbortSignal.timeout(LIMIT_MS) })
      const [answer] = (await once(request, 'response')) as [IncomingMessage]
      if (answer.statusCode !== 200) throw new Error(`${path} answered ${answer.statusCode}`)
      let firstAt = 0
      for await (const _ of answer) firstAt ||= performance.now()
      times.firstByteMs.push(firstAt - startedAt)
      times.wholeMs.push(performance.now() - startedAt)
    }
  }
  try {
    await Promise.all(Array.from({ length: readers }, reader))
    return times
  } finally {
    agent.destroy()
  }
}

answerAsBaseline({ read })
