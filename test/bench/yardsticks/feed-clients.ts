/**
 * Many clients of an event stream in one process: they count what comes, and some look how old it is.
 *
 * Plain sockets, because a client library would cost more than the server under test.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { answerAsYardstick } from '../yardstick.ts'

/** Where to connect, and how often. */
export interface FeedCrowd {
  port: number
  count: number
}

/** What the clients saw since they were last asked. */
export interface FeedSeen {
  deliveries: number
  p50Ms: number
  p99Ms: number
}

const MARK = '"seen_at":"'
const INSTANT_LENGTH = 24
/** One in so many clients looks at ages. */
const LOOKS = 20
const TOGETHER = 200
const QUIET_MS = 300
const QUIET_LIMIT_MS = 20_000

const sockets: Socket[] = []
let deliveries = 0
let ages: number[] = []

function take(chunk: Buffer, looks: boolean): void {
  for (let at = chunk.indexOf(MARK); at >= 0; at = chunk.indexOf(MARK, at + 1)) {
    deliveries += 1
    if (!looks) continue
    const start = at + MARK.length
    const instant = Date.parse(chunk.toString('latin1', start, start + INSTANT_LENGTH))
    // Cut by the end of a chunk: not looked at.
    if (!Number.isNaN(instant)) ages.push(Date.now() - instant)
  }
}

/** Two connections have a key together, as many as one may hold. */
const keyOf = (at: number): string => `sk_live_root_${String(Math.floor(at / 2)).padStart(43, '0')}`

async function open(port: number, at: number): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  sockets.push(socket)
  const looks = at % LOOKS === 0
  socket.on('error', () => undefined)
  socket.write(`GET /feed/prices HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${keyOf(at)}\r\n\r\n`)
  await once(socket, 'data')
  socket.on('data', (chunk: Buffer) => take(chunk, looks))
}

answerAsYardstick({
  async connect({ port, count }: FeedCrowd) {
    for (let from = 0; from < count; from += TOGETHER) {
      const some = Array.from({ length: Math.min(TOGETHER, count - from) }, (_, i) => open(port, from + i))
      await Promise.all(some)
    }
  },
  async seen(): Promise<FeedSeen> {
    const limit = performance.now() + QUIET_LIMIT_MS
    for (let before = -1; before !== deliveries && performance.now() < limit; ) {
      before = deliveries
      await delay(QUIET_MS)
    }
    const sorted = ages.sort((a, b) => a - b)
    const at = (share: number) => sorted[Math.floor((sorted.length - 1) * share)] ?? Number.NaN
    const seen = { deliveries, p50Ms: at(0.5), p99Ms: at(0.99) }
    deliveries = 0
    ages = []
    return seen
  },
  async disconnect() {
    for (const socket of sockets.splice(0)) socket.destroy()
  },
})
