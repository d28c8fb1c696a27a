/**
 * Many clients of an event stream in one process, on plain sockets, because a client library would cost more than the server under test. They
 * count what comes, and some measure how old it is: an event's first quantity is when it was made, in microseconds of the machine's monotonic
 * clock.
 *
 * Good ones read all that comes; slow ones a part of it; stalled ones nothing behind the first bytes. Those that resume keep the last id that
 * they were sent, and come back with it: at the time that a refusal names, or a second later. Why they came back is counted, so that a limit
 * can name it.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { answerAsBaseline } from '../baseline.ts'
import { percentile } from '../entry.ts'

export type FeedReading = 'all' | 'nothing' | number

export interface FeedCrowd {
  port: number
  count: number
  reads?: FeedReading
  /** One client in so many measures ages; 20 when left out. */
  sampleEvery?: number
  /** Where its keys begin, so that two crowds share none. */
  firstKey?: number
  /** Keys that are known to the server, two connections each; made up when left out. */
  keys?: string[]
}

export interface FeedSeen {
  deliveries: number
  p99Ms: number
  /** The same of each whole window of five seconds, from the first event on. */
  windowsP99Ms: number[]
  ended: number
}

const MARK = '"items":['
const MADE = /"qty":(\d{8,})[,}]/
/** Between the mark and the end of the first quantity, at most. */
const MADE_WITHIN = 300
const SAMPLE_EVERY = 20
const TOGETHER = 200
const WINDOW_MS = 5_000
const QUIET_MS = 300
const QUIET_LIMIT_MS = 20_000
/** A stalled client reads nothing, so it learns by writing that its connection is gone. */
const PROBE_EVERY_MS = 1_000
/** Of one read of a socket, at most. */
const PIECE_BYTES = 64 * 1024

const sockets = new Set<Socket>()
let deliveries = 0
let ended = 0
let ages: number[] = []
let windows: number[][] = []
let firstAt = 0

const nowMicros = (): number => Number(process.hrtime.bigint() / 1_000n)

function take(chunk: Buffer, isSampled: boolean): void {
  for (let at = chunk.indexOf(MARK); at >= 0; at = chunk.indexOf(MARK, at + 1)) {
    deliveries += 1
    if (!isSampled) continue
    // One that the end of a chunk cuts is not measured.
    const made = MADE.exec(chunk.toString('latin1', at, at + MADE_WITHIN))?.[1]
    if (made !== undefined) note((nowMicros() - Number(made)) / 1_000)
  }
}

function note(age: number): void {
  const now = performance.now()
  if (ages.length === 0) firstAt = now
  ages.push(age)
  const window = Math.floor((now - firstAt) / WINDOW_MS)
  const some = windows[window]
  if (some) some.push(age)
  else windows[window] = [age]
}

/**
 * Reads so many bytes a second: a piece, then nothing until the next is due. Begins at a share of a turn: a hundred
 * that were opened at once would go on reading at once, six megabytes twice a second, where a hundred clients of their own
 * read at moments of their own.
 */
function readSlowly(socket: Socket, perSecond: number, share: number): void {
  const rest = (bytes: number) => {
    socket.pause()
    setTimeout(() => socket.resume(), (bytes * 1_000) / perSecond)
  }
  socket.on('data', (chunk: Buffer) => rest(chunk.length))
  rest(share * PIECE_BYTES)
}

/** Reads nothing; probes at a time of its own, like `readSlowly`. */
function readNothing(socket: Socket, share: number): void {
  socket.pause()
  let probe: NodeJS.Timeout
  const first = setTimeout(() => {
    probe = setInterval(() => socket.write('\n'), PROBE_EVERY_MS)
  }, share * PROBE_EVERY_MS)
  socket.once('close', () => {
    clearTimeout(first)
    clearInterval(probe)
  })
}

/** Two connections have a key together, as many as one may hold. */
function keyOf({ firstKey = 0, keys }: FeedCrowd, at: number): string {
  const number = Math.floor((firstKey + at) / 2)
  return keys?.[number] ?? `sk_live_root_${String(number).padStart(43, '0')}`
}

async function open(crowd: FeedCrowd, at: number): Promise<void> {
  const { port, reads = 'all', sampleEvery = SAMPLE_EVERY } = crowd
  const socket = connect(port, '127.0.0.1')
  sockets.add(socket)
  socket.on('error', () => undefined)
  socket.write(
    `GET /feed/prices HTTP/1.1\r\nHost: bench\r\nAccept: text/event-stream\r\nAuthorization: Bearer ${keyOf(crowd, at)}\r\n\r\n`,
  )
  await once(socket, 'data')
  if (reads === 'all') socket.on('data', (chunk: Buffer) => take(chunk, at % sampleEvery === 0))
  else if (reads === 'nothing') readNothing(socket, at / crowd.count)
  else readSlowly(socket, reads, at / crowd.count)
  socket.once('close', () => {
    if (!sockets.delete(socket)) return
    ended += 1
    if (reads !== 'all') void open(crowd, at)
  })
}

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

const BEGIN_LIMIT_MS = 120_000
const COME_BACK_MS = 1_000
const HEAD_END = '\r\n\r\n'
const ACCEPTED = 'HTTP/1.1 200'
const READY = 'event: ready'
const ID = /^id: ?(.*)$/gm
/** Of a stream, so that a line cut by the end of a chunk is whole. */
const KEPT = 512

const resuming = new Map<string, Client>()

function openAgain(client: Client, port: number): Promise<'begun' | Refusal> {
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
  async connect(crowd: FeedCrowd) {
    const { count } = crowd
    for (let from = 0; from < count; from += TOGETHER) {
      const some = Array.from({ length: Math.min(TOGETHER, count - from) }, (_, i) => open(crowd, from + i))
      await Promise.all(some)
    }
  },
  async seen(): Promise<FeedSeen> {
    const limit = performance.now() + QUIET_LIMIT_MS
    for (let before = -1; before !== deliveries && performance.now() < limit; ) {
      before = deliveries
      await delay(QUIET_MS)
    }
    // The last one is cut off by the end of the events.
    const windowsP99Ms = windows.slice(0, -1).map(some => percentile(some, 0.99))
    const seen = { deliveries, p99Ms: percentile(ages, 0.99), windowsP99Ms, ended }
    deliveries = 0
    ended = 0
    ages = []
    windows = []
    return seen
  },
  /** Resolves when all have begun, with what they came back after. */
  async resume({ port, keys }: ResumingCrowd): Promise<Record<string, number>> {
    const cameBackAfter: Record<string, number> = {}
    const limit = performance.now() + BEGIN_LIMIT_MS
    const begin = async (client: Client): Promise<void> => {
      for (;;) {
        const outcome = await openAgain(client, port)
        if (outcome === 'begun') return
        cameBackAfter[outcome.reason] = (cameBackAfter[outcome.reason] ?? 0) + 1
        if (performance.now() > limit)
          throw new Error(`not all clients have begun after ${BEGIN_LIMIT_MS} ms: ${JSON.stringify(cameBackAfter)}`)
        await delay(outcome.retryAfterMs)
      }
    }
    await Promise.all(
      keys.map(key => {
        const client = resuming.get(key) ?? { key, lastId: undefined, socket: undefined }
        resuming.set(key, client)
        client.socket?.destroy()
        return begin(client)
      }),
    )
    return cameBackAfter
  },
})
