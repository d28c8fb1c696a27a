/**
 * Clients that ask for prices at a steady pace over kept connections, in a process of their own.
 *
 * A request's time runs from when it was due, so that one that waits for the one before it counts as late. An answer that is no 200
 * is kept and counted.
 */
import { connect, type Socket } from 'node:net'
import { answerAsBaseline } from '../baseline.ts'
import { percentile } from '../statistics.ts'

/** What they ask for. */
export interface GoodLoad {
  port: number
  key: string
  itemIds: readonly number[]
  perSecond: number
  seconds: number
}

/** What they were answered. */
export interface GoodSeen {
  answered: number
  p50Ms: number
  p99Ms: number
  /** The first lines of answers that are no 200. */
  refused: string[]
}

const CONNECTIONS = 32
const HEAD_END = Buffer.from('\r\n\r\n')
const LIMIT_MS = 30_000

const sockets: Socket[] = []

/** One request over a connection that has none under way; resolves with its status line once it is answered whole. */
function ask(socket: Socket, request: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>()
  let got: Buffer = Buffer.alloc(0)
  const read = (bytes: Buffer): void => {
    got = got.length === 0 ? bytes : Buffer.concat([got, bytes])
    const end = got.indexOf(HEAD_END)
    if (end < 0) return
    const text = got.toString('latin1', 0, end)
    const length = Number(/\r\ncontent-length: (\d+)/i.exec(text)?.[1])
    if (got.length < end + HEAD_END.length + length) return
    socket.off('data', read).off('close', gone)
    resolve(text.slice(0, text.indexOf('\r\n')))
  }
  const gone = (): void => reject(new Error('the server closed a connection of a good client'))
  socket.on('data', read).once('close', gone)
  socket.write(request)
  return promise
}

answerAsBaseline({
  async run({ port, key, itemIds, perSecond, seconds }: GoodLoad): Promise<GoodSeen> {
    while (sockets.length < CONNECTIONS) {
      const socket = connect(port, '127.0.0.1').setNoDelay(true)
      socket.on('error', () => undefined)
      sockets.push(socket)
    }
    const [latencies, refused]: [number[], string[]] = [[], []]
    const startedAt = performance.now()
    const everyMs = (CONNECTIONS * 1_000) / perSecond
    const work = sockets.map(async (socket, connection) => {
      for (let turn = 0; ; turn++) {
        const due = startedAt + (turn + connection / CONNECTIONS) * everyMs
        if (due >= startedAt + seconds * 1_000) return
        // What could not even be sent has waited until now at least.
        if (performance.now() >= startedAt + seconds * 1_000) {
          latencies.push(performance.now() - due)
          continue
        }
        const early = due - performance.now()
        if (early > 0) await new Promise(resolve => setTimeout(resolve, early))
        // A timer that fires late is this process' own delay.
        const since = early > 0 ? performance.now() : due
        const itemId = itemIds[(turn * CONNECTIONS + connection) % itemIds.length]
        const request = `GET /prices?item_id=${itemId} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${key}\r\n\r\n`
        const status = await ask(socket, request)
        if (!status.startsWith('HTTP/1.1 200')) refused.push(status)
        latencies.push(performance.now() - since)
      }
    })
    const limit = setTimeout(() => process.exit(1), seconds * 1_000 + LIMIT_MS)
    await Promise.all(work)
    clearTimeout(limit)
    return {
      answered: latencies.length,
      p50Ms: percentile(latencies, 0.5),
      p99Ms: percentile(latencies, 0.99),
      refused,
    }
  },
})
