/**
 * Asks an HTTP server over kept connections, one request at a time on each.
 *
 * Speaks just as much HTTP as the servers here answer (a head, Content-Length, a body) and looks at nothing but
 * the status, since on a small machine the client's own work is part of what is measured: autocannon parses in
 * JavaScript and needs as long for an answer of 14 kB as the server that makes it.
 */
import { connect } from 'node:net'

export interface HttpTarget {
  baseUrl: string
  /** Asked one after the other by whichever connection is free, and from the first again after the last. */
  questions: readonly HttpQuestion[]
  headers: Readonly<Record<string, string>>
}

export interface HttpQuestion {
  path: string
  body?: string
}

export interface KeptConnection {
  /** Resolves with the status line once the answer is whole; rejects when the connection ends. */
  ask(request: Buffer | string): Promise<string>
  close(): void
}

const CONNECTIONS = 64
const HEAD_END = Buffer.from('\r\n\r\n')

/** Loads a server for a time over 64 connections, from a question on; an answer that is no 200 ends the load with an error. */
export async function loadFor(
  { baseUrl, questions, headers }: HttpTarget,
  ms: number,
  first: number,
): Promise<{ requests: number; seconds: number }> {
  const requests = questions.map(question => requestText(question, headers))
  const startedAt = performance.now()
  let asked = first
  const load = async (): Promise<void> => {
    const connection = keepConnection(Number(new URL(baseUrl).port))
    try {
      while (performance.now() < startedAt + ms) {
        const status = await connection.ask(requests[asked++ % requests.length] as Buffer)
        if (!status.startsWith('HTTP/1.1 200')) throw new Error(`not an answer to count: ${status}`)
      }
    } finally {
      connection.close()
    }
  }
  await Promise.all(Array.from({ length: CONNECTIONS }, load))
  return { requests: asked - first, seconds: (performance.now() - startedAt) / 1_000 }
}

/** The whole answer to the holder of a key, by Node's own client; a body of text is JSON. Throws unless all is well. */
export async function askAs(key: string, url: string, init: RequestInit = {}): Promise<string> {
  const json = typeof init.body === 'string' && { 'content-type': 'application/json' }
  const answer = await fetch(url, { ...init, headers: { authorization: `Bearer ${key}`, ...json } })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${url} answered ${answer.status}: ${text.slice(0, 300)}`)
  return text
}

function requestText({ path, body }: HttpQuestion, headers: HttpTarget['headers']): Buffer {
  const content =
    body === undefined ? {} : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
  const lines = Object.entries({ host: 'bench', ...headers, ...content }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  )
  return Buffer.from(`${body === undefined ? 'GET' : 'POST'} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${body ?? ''}`)
}

export function keepConnection(port: number): KeptConnection {
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
    ask(request) {
      answer = Promise.withResolvers()
      if (socket.destroyed) answer.reject(new Error('the server closed a connection'))
      else socket.write(request)
      return answer.promise
    },
    close: () => void socket.destroy(),
  }
}
