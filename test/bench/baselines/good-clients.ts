/** A request's time runs from when it was due, so that one that waits for the one before it counts as late. */
import { answerAsBaseline } from '../baseline.ts'
import { type KeptConnection, keepConnection } from '../http-load.ts'
import { percentile } from '../statistics.ts'

export interface GoodLoad {
  port: number
  key: string
  itemIds: readonly number[]
  perSecond: number
  seconds: number
}

export interface GoodSeen {
  p99Ms: number
  /** The first lines of answers that are no 200. */
  refused: string[]
}

const CONNECTIONS = 32
const LIMIT_MS = 30_000

const connections: KeptConnection[] = []

answerAsBaseline({
  async run({ port, key, itemIds, perSecond, seconds }: GoodLoad): Promise<GoodSeen> {
    while (connections.length < CONNECTIONS) connections.push(keepConnection(port))
    const [latencies, refused]: [number[], string[]] = [[], []]
    const startedAt = performance.now()
    const endsAt = startedAt + seconds * 1_000
    const everyMs = (CONNECTIONS * 1_000) / perSecond
    const work = connections.map(async (connection, number) => {
      for (let turn = 0; ; turn++) {
        const due = startedAt + (turn + number / CONNECTIONS) * everyMs
        if (due >= endsAt) return
        // What could not even be sent has waited until now at least.
        if (performance.now() >= endsAt) {
          latencies.push(performance.now() - due)
          continue
        }
        const early = due - performance.now()
        if (early > 0) await new Promise(resolve => setTimeout(resolve, early))
        // A timer that fires late is this process' own delay.
        const since = early > 0 ? performance.now() : due
        const itemId = itemIds[(turn * CONNECTIONS + number) % itemIds.length]
        const request = `GET /prices?item_id=${itemId} HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer ${key}\r\n\r\n`
        const status = await connection.ask(request)
        if (!status.startsWith('HTTP/1.1 200')) refused.push(status)
        latencies.push(performance.now() - since)
      }
    })
    const limit = setTimeout(() => process.exit(1), seconds * 1_000 + LIMIT_MS)
    await Promise.all(work)
    clearTimeout(limit)
    return { p99Ms: percentile(latencies, 0.99), refused }
  },
})
