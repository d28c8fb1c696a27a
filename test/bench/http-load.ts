/**
 * Loads an HTTP server over kept connections, one request at a time on each.
 *
 * Speaks just as much HTTP as the servers here answer (a head, Content-Length, a body) and looks at nothing but
 * the status, since on a small machine the client's own work is part of what is measured: autocannon parses in
 * JavaScript and needs as long for an answer of 14 kB as the server that makes it. Invariant: an answer that
 * is no 200 ends the load with an error.
 */
import { connect, type Socket } from 'node:net'
import { percentile } from './statistics.ts'

/** What is asked, and whom. */
export interface HttpTarget {
  baseUrl: string
  /** Asked one after the other by whichever connection is free, and from the first again after the last. */
  questions: readonly HttpQuestion[]
  headers: Readonly<Record<string, string>>
}

/** A GET, or a POST of a JSON text. */
export interface HttpQuestion {
  path: string
  body?: string
}

/** What a load measured. */
export interface LoadResult {
  requests: number
  requestsPerSecond: number
  p50Ms: number
  p99Ms: number
}

const CONNECTIONS = 64
const HEAD_END = Buffer.from('\r\n\r\n')

/** Loads a server for a time over 64 connections, from a question on: one load after the other reaches all of many. */
export async function loadFor(target: HttpTarget, ms: number, first = 0): Promise<LoadResult> {
  const { hostname, port } = new URL(target.baseUrl)
  const requests = target.questions.map(question => requestText(question, hostname, target.headers))
  const latencies: number[] = []
  const startedAt = performance.now()
  const until = startedAt + ms
  let asked = first
  const nextRequest = (): Buffer => requests[asked++ % requests.length] as Buffer
  await Promise.all(
    Array.from({ length: CONNECTIONS }, async () => {
      const socket = connect(Number(port), hostname)
      socket.setNoDelay(true)
      try {
        await askUntil(socket, nextRequest, { until, latencies })
      } finally {
        socket.destroy()
      }
    }),
  )
  const seconds = (performance.now() - startedAt) / 1000
  return {
    requests: latencies.length,
    requestsPerSecond: latencies.length / seconds,
    p50Ms: percentile(latencies, 0.5),
    p99Ms: percentile(latencies, 0.99),
  }
}

function requestText({ path, body }: HttpQuestion, host: string, headers: Readonly<Record<string, string>>): Buffer {
  const content =
    body === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
  const lines = Object.entries({ host, ...headers, ...content }).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.from(`${body === undefined ? 'GET' : 'POST'} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body ?? ''}`)
}

function askUntil(
  socket: Socket,
  nextRequest: () => Buffer,
  { until, latencies }: { until: number; latencies: number[] },
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let askedAt = 0
  /** Bytes of the body still to come; undefined while the head is not whole. */
  let missing: number | undefined
  let head: Buffer = Buffer.alloc(0)
  const ask = (): void => {
    if (performance.now() >= until) {
      resolve()
      return
    }
    missing = undefined
    head = Buffer.alloc(0)
    askedAt = performance.now()
    socket.write(nextRequest())
  }
  socket.on('data', bytes => {
    if (missing === undefined) {
      head = head.length === 0 ? bytes : Buffer.concat([head, bytes])
      const end = head.indexOf(HEAD_END)
      if (end < 0) return
      const text = head.toString('latin1', 0, end)
      const length = /\r\ncontent-length: (\d+)/i.exec(text)?.[1]
      if (!text.startsWith('HTTP/1.1 200') || length === undefined) {
        return reject(new Error(`not an answer to count: ${head.toString().slice(0, 600)}`))
      }
      missing = Number(length) - (head.length - end - HEAD_END.length)
    } else missing -= bytes.length
    if (missing > 0) return
    latencies.push(performance.now() - askedAt)
    ask()
  })
  socket.once('error', reject)
  socket.once('close', () => reject(new Error('the server closed a connection')))
  socket.once('connect', ask)
  return promise
}
