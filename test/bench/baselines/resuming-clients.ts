/**
 * Many clients of a feed in one process that come back where they left off, at whatever gateway they are sent to.
 *
 * Plain sockets, because a client library would cost more than the server under test. A client keeps the last id that it was sent. It
 * has begun once it is sent `ready`; one that is refused, or whose stream ends before that, comes back as clients of event streams do:
 * at the time that it is given, or a second later. What they came back after is counted, so that a limit can name it.
 */
import { connect, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { answerAsBaseline } from '../baseline.ts'

/** Where the clients are to be: `keys` has the key of each. */
export interface ResumingCrowd {
  port: number
  keys: readonly string[]
}

interface Client {
  key: string
  lastId: string | undefined
  socket: Socket | undefined
}

/** Why a client has not begun, and when it comes back. */
interface Refusal {
  reason: string
  retryAfterMs: number
}

const LIMIT_MS = 120_000
const COME_BACK_MS = 1_000
const HEAD_END = '\r\n\r\n'
const ACCEPTED = 'HTTP/1.1 200'
const READY = 'event: ready'
const ID = /^id: ?(.*)$/gm
/** What of a stream is kept, so that a line cut by the end of a chunk is whole. */
const KEPT = 512

const clients = new Map<string, Client>()

function open(client: Client, port: number): Promise<'begun' | Refusal> {
  const { promise, resolve } = Promise.withResolvers<'begun' | Refusal>()
  const socket = connect(port, '127.0.0.1')
  client.socket = socket
  const from = client.lastId === undefined ? '' : `Last-Event-ID: ${client.lastId}\r\n`
  socket.write(
    `GET /feed/prices?resume=true HTTP/1.1\r\nHost: bench\r\nAccept: text/event-stream\r\nAuthorization: Bearer ${client.key}\r\n${from}\r\n`,
  )
  let ending = 'it was closed'
  let head = ''
  let kept = ''
  socket.on('data', (chunk: Buffer) => {
    const text = kept + chunk.toString('latin1')
    if (!head.includes(HEAD_END)) {
      head += chunk.toString('latin1')
      if (head.includes(HEAD_END) && !head.startsWith(ACCEPTED)) {
        const seconds = /^retry-after: (\d+)/im.exec(head)?.[1]
        socket.destroy()
        const retryAfterMs = seconds === undefined ? COME_BACK_MS : Number(seconds) * 1_000
        return resolve({ reason: head.slice(0, head.indexOf('\r\n')), retryAfterMs })
      }
    }
    const whole = text.slice(0, text.lastIndexOf('\n') + 1)
    client.lastId = [...whole.matchAll(ID)].at(-1)?.[1] ?? client.lastId
    if (whole.includes(READY)) resolve('begun')
    kept = text.slice(-KEPT)
  })
  socket.on('error', (error: NodeJS.ErrnoException) => {
    ending = error.code ?? error.message
  })
  socket.once('close', () =>
    resolve({ reason: `${head.slice(0, ACCEPTED.length)} ${ending}`, retryAfterMs: COME_BACK_MS }),
  )
  return promise
}

answerAsBaseline({
  /** Resolves when all have begun, with what they came back after. */
  async connect({ port, keys }: ResumingCrowd): Promise<Record<string, number>> {
    const cameBackAfter: Record<string, number> = {}
    const limit = performance.now() + LIMIT_MS
    const begin = async (client: Client): Promise<void> => {
      for (;;) {
        const outcome = await open(client, port)
        if (outcome === 'begun') return
        cameBackAfter[outcome.reason] = (cameBackAfter[outcome.reason] ?? 0) + 1
        if (performance.now() > limit)
          throw new Error(`not all clients have begun after ${LIMIT_MS} ms: ${JSON.stringify(cameBackAfter)}`)
        await delay(outcome.retryAfterMs)
      }
    }
    await Promise.all(
      keys.map(key => {
        const client = clients.get(key) ?? { key, lastId: undefined, socket: undefined }
        clients.set(key, client)
        client.socket?.destroy()
        return begin(client)
      }),
    )
    return cameBackAfter
  },
})
