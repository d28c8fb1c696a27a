/**
 * Many clients of a feed in one process that come back where they left off, at whatever gateway they are sent to.
 *
 * Plain sockets, because a client library would cost more than the server under test. A client keeps the last id that it was sent; one that
 * is refused for the moment comes back at the time that it is given. It has begun once it is sent `ready`.
 */
import { connect, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { answerAsBaseline } from '../baseline.ts'

/** Where the clients are to be: `keys` has the key of each. */
export interface ResumingCrowd {
  port: number
  keys: readonly string[]
}

/** What it took until all had begun. */
export interface ResumedCrowd {
  seconds: number
  /** Answers 503, which name a time to come back at. */
  refused: number
}

interface Client {
  key: string
  lastId: string | undefined
  socket: Socket | undefined
}

const LIMIT_MS = 120_000
const HEAD_END = '\r\n\r\n'
const READY = 'event: ready'
const ID = /^id: ?(.*)$/gm
/** What of a stream is kept, so that a line cut by the end of a chunk is whole. */
const KEPT = 512

const clients = new Map<string, Client>()
let refused = 0

/** Resolves when the client has begun; a stream that ends before that rejects. */
function open(client: Client, port: number): Promise<'begun' | { retryAfterMs: number }> {
  const { promise, resolve, reject } = Promise.withResolvers<'begun' | { retryAfterMs: number }>()
  const socket = connect(port, '127.0.0.1')
  client.socket = socket
  const from = client.lastId === undefined ? '' : `Last-Event-ID: ${client.lastId}\r\n`
  socket.write(
    `GET /feed/prices?resume=true HTTP/1.1\r\nHost: bench\r\nAccept: text/event-stream\r\nAuthorization: Bearer ${client.key}\r\n${from}\r\n`,
  )
  let kept = ''
  socket.on('data', (chunk: Buffer) => {
    const text = kept + chunk.toString('latin1')
    if (text.startsWith('HTTP/1.1 503') && text.includes(HEAD_END)) {
      const seconds = Number(/^retry-after: (\d+)/im.exec(text)?.[1])
      socket.destroy()
      return resolve({ retryAfterMs: seconds * 1_000 })
    }
    const whole = text.slice(0, text.lastIndexOf('\n') + 1)
    client.lastId = [...whole.matchAll(ID)].at(-1)?.[1] ?? client.lastId
    if (whole.includes(READY)) resolve('begun')
    kept = text.slice(-KEPT)
  })
  socket.on('error', () => undefined)
  socket.once('close', () => reject(new Error('a stream ended before it began')))
  return promise
}

async function resume(client: Client, port: number): Promise<void> {
  for (;;) {
    const outcome = await open(client, port)
    if (outcome === 'begun') return
    refused += 1
    await delay(outcome.retryAfterMs)
  }
}

answerAsBaseline({
  async connect({ port, keys }: ResumingCrowd): Promise<ResumedCrowd> {
    refused = 0
    const startedAt = performance.now()
    const all = keys.map(key => {
      const client = clients.get(key) ?? { key, lastId: undefined, socket: undefined }
      clients.set(key, client)
      client.socket?.destroy()
      return resume(client, port)
    })
    const limit = new AbortController()
    const late = delay(LIMIT_MS, undefined, { signal: limit.signal }).then(() => {
      throw new Error(`not all clients have begun after ${LIMIT_MS} ms`)
    })
    await Promise.race([Promise.all(all), late]).finally(() => limit.abort())
    late.catch(() => undefined)
    return { seconds: (performance.now() - startedAt) / 1_000, refused }
  },
})
