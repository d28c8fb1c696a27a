/**
 * Clients of an HTTP server in a process of their own: encoding a refresh keeps the bench's for tens of milliseconds, which clients in it took
 * for the server's time.
 *
 * `load` is that of http-load.ts; `read` reads whole answers of any form and keeps nothing of a body: with `fetch` one answer in ten seemed
 * 20 ms slower than it was. An answer that is no 200 ends the work with an error, or is counted as refused where a pace is set.
 */
import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { Agent, request as httpRequest, type IncomingMessage } from 'node:http'
import { finished } from 'node:stream/promises'
import { answerAsBaseline } from '../baseline.ts'
import { type HttpQuestion, type HttpTarget, load } from '../http-load.ts'

export interface Reading extends HttpTarget {
  method: 'GET' | 'POST'
  readers: number
  until: { ms: number } | { answers: number }
  /** Hangs up at the first byte of the body. */
  isBegun?: boolean
  /** Where the body is stored. */
  file?: string
}

/** How long answers took, in milliseconds: to the first byte of the body, and to its end; and the bytes of all bodies. */
export interface ReadingSeen {
  firstByteMs: number[]
  wholeMs: number[]
  bytes: number
}

const LIMIT_MS = 60_000

async function read(reading: Reading): Promise<ReadingSeen> {
  const { baseUrl, headers, questions, method, readers, until, isBegun, file } = reading
  const seen: ReadingSeen = { firstByteMs: [], wholeMs: [], bytes: 0 }
  const agent = new Agent({ keepAlive: true, maxSockets: readers })
  const endsAt = 'ms' in until ? performance.now() + until.ms : Number.POSITIVE_INFINITY
  const answers = 'answers' in until ? until.answers : Number.POSITIVE_INFINITY
  const stored = file === undefined ? undefined : createWriteStream(file)
  let asked = 0
  const reader = async (): Promise<void> => {
    while (asked < answers && performance.now() < endsAt) {
      const { path, headers: own } = questions[asked++ % questions.length] as HttpQuestion
      const startedAt = performance.now()
      const options = { method, agent, headers: { ...headers, ...own }, signal: AbortSignal.timeout(LIMIT_MS) }
      const request = httpRequest(baseUrl + path, options)
      const [answer] = (await once(request.end(), 'response')) as [IncomingMessage]
      if (answer.statusCode !== 200) throw new Error(`${method} ${path} answered ${answer.statusCode}`)
      let firstAt = 0
      for await (const chunk of answer) {
        firstAt ||= performance.now()
        seen.bytes += chunk.length
        stored?.write(chunk)
        if (isBegun) break
      }
      if (firstAt === 0) throw new Error(`${method} ${path} sent nothing`)
      seen.firstByteMs.push(firstAt - startedAt)
      seen.wholeMs.push(performance.now() - startedAt)
    }
  }
  try {
    await Promise.all(Array.from({ length: readers }, reader))
    if (stored) await finished(stored.end())
    return seen
  } finally {
    agent.destroy()
  }
}

answerAsBaseline({ load, read })
