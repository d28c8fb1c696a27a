/**
 * Reads a long answer as fast as it comes and keeps nothing of it, unless it is given a target.
 *
 * An answer that is no 200, or that is cut, rejects.
 */
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { pipeline } from 'node:stream/promises'

/** What is asked for. */
export interface StreamQuestion {
  url: string
  method: 'GET' | 'POST'
  headers: Record<string, string>
}

/** What was read. */
export interface StreamRead {
  firstByteMs: number
  ms: number
  bytes: number
}

const LIMIT_MS = 60_000

/** Reads an answer to its end; `take` may keep the bytes. */
export async function readStream(question: StreamQuestion, take?: (bytes: Buffer) => void): Promise<StreamRead> {
  const startedAt = performance.now()
  const response = await ask(question)
  let firstByteMs = Number.NaN
  let bytes = 0
  await pipeline(response, async function* (chunks: AsyncIterable<Buffer>) {
    for await (const chunk of chunks) {
      if (bytes === 0) firstByteMs = performance.now() - startedAt
      bytes += chunk.length
      take?.(chunk)
    }
    yield* []
  })
  return { firstByteMs, ms: performance.now() - startedAt, bytes }
}

/** Milliseconds until the first byte of the body; hangs up then. */
export async function timeToFirstByte(question: StreamQuestion): Promise<number> {
  const startedAt = performance.now()
  const response = await ask(question)
  const ms = await new Promise<number>((resolve, reject) => {
    response.once('data', () => resolve(performance.now() - startedAt))
    response.once('error', reject)
  })
  response.destroy()
  return ms
}

async function ask({ url, method, headers }: StreamQuestion): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const request = httpRequest(url, { method, headers, agent: false, timeout: LIMIT_MS }, resolve)
  request.on('timeout', () => request.destroy(new Error(`${url} sent nothing for ${LIMIT_MS} ms`)))
  request.on('error', reject)
  request.end()
  const response = await promise
  if (response.statusCode !== 200) {
    response.resume()
    throw new Error(`${method} ${url} answered ${response.statusCode}`)
  }
  return response
}
