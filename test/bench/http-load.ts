/**
 * Asks a server over kept connections and speaks just as much HTTP as the servers here answer (a head, Content-Length, a body): on a small
 * machine the client's own work is part of what is measured, and autocannon needs as long for an answer of 14 kB as the server that makes it.
 */
import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { percentile } from './entry.ts'

export interface HttpTarget {
  baseUrl: string
  /** Asked one after the other by whichever connection is free, and from the first again after the last. */
  questions: readonly HttpQuestion[]
  headers: Readonly<Record<string, string>>
}

export interface HttpQuestion {
  path: string
  body?: string
  /** Beside those of all. */
  headers?: Readonly<Record<string, string>>
}

export interface HttpLoad extends HttpTarget {
  ms: number
  /** The first of the questions; 0 when left out. */
  first?: number
  /** Requests a second of all connections, each at its time; as many as are answered when left out. */
  perSecond?: number
}

export interface LoadSeen {
  requests: number
  seconds: number
  /** From when a request was due, so that one that waits for the one before it counts as late. */
  p99Ms: number
  /** The first lines of answers that are no 200. */
  refused: string[]
}

const CONNECTIONS = { fast: 64, paced: 32 }
const HEAD_END = Buffer.from('\r\n\r\n')

/** Those of paced clients, who go on by them. */
const kept: ReturnType<typeof keepConnection>[] = []

export async function load({ perSecond, ...target }: HttpLoad): Promise<LoadSeen> {
  const requests = target.questions.map(question => requestText(question, target.headers))
  const connections = perSecond === undefined ? [] : kept
  const count = perSecond === undefined ? CONNECTIONS.fast : CONNECTIONS.paced
  while (connections.length < count) connections.push(keepConnection(Number(new URL(target.baseUrl).port)))
  const [latencies, refused]: [number[], string[]] = [[], []]
  const startedAt = performance.now()
  const endsAt = startedAt + target.ms
  const everyMs = perSecond === undefined ? 0 : (count * 1_000) / perSecond
  let asked = target.first ?? 0
  const work = connections.map(async (connection, number) => {
    for (let turn = 0; ; turn++) {
      const due = perSecond === undefined ? performance.now() : startedAt + (turn + number / count) * everyMs
      if (due >= endsAt) return
      // What could not even be sent has waited until now at least.
      if (performance.now() >= endsAt) {
        latencies.push(performance.now() - due)
        continue
      }
      const early = due - performance.now()
      if (early > 0) await pause(early)
      // A timer that fires late is this process' own delay.
      const since = early > 0 ? performance.now() : due
      const status = await connection.ask(requests[asked++ % requests.length] as Buffer)
      latencies.push(performance.now() - since)
      if (status.startsWith('HTTP/1.1 200')) continue
      if (perSecond === undefined) throw new Error(`not an answer to count: ${status}`)
      refused.push(status)
    }
  })
  await Promise.all(work)
  const seconds = (performance.now() - startedAt) / 1_000
  if (perSecond === undefined) for (const connection of connections) connection.close()
  return { requests: asked - (target.first ?? 0), seconds, p99Ms: percentile(latencies, 0.99), refused }
}

function requestText({ path, body, headers: own }: HttpQuestion, headers: HttpTarget['headers']): Buffer {
  const content =
    body === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
  const lines = Object.entries({ host: 'bench', ...headers, ...own, ...content }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  )
  return Buffer.from(`${body === undefined ? 'GET' : 'POST'} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body ?? ''}`)
}

function keepConnection(port: number) {
  const socket = connect(port, '127.0.0.1').setNoDelay(true)
  let answer: PromiseWithResolvers<string> | undefined
  let status = ''
  let head: Buffer = Buffer.alloc(0)
  /** Bytes of the body still to come; undefined while the head is not whole. */
  let missing: number | undefined
  socket.on('data', bytes => {
    if (missing === undefined) {
      head = head.length === 0 ? bytes : Buffer.concat([head, bytes])
      const end = head.indexOf(HEAD_END)
      if (end < 0) return
      const text = head.toString('latin1', 0, end)
      status = text.slice(0, text.indexOf('\r\n'))
      const length = /\r\ncontent-length: (\d+)/i.exec(text)?.[1]
      if (length === undefined) return void socket.destroy(new Error(`an answer without a length: ${text}`))
      missing = Number(length) - (head.length - end - HEAD_END.length)
    } else missing -= bytes.length
    if (missing > 0) return
    missing = undefined
    head = Buffer.alloc(0)
    answer?.resolve(status)
  })
  socket.on('error', error => answer?.reject(error))
  socket.once('close', () => answer?.reject(new Error('the server closed a connection')))
  return {
    close: () => void socket.destroy(),
    /** Resolves with the status line once the answer is whole; rejects when the connection ends. */
    ask(request: Buffer): Promise<string> {
      answer = Promise.withResolvers()
      if (socket.destroyed) answer.reject(new Error('the server closed a connection'))
      else socket.write(request)
      return answer.promise
    },
  }
}
