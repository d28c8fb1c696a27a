/**
 * A server of event streams in a process of its own: the feed's gateway, or plain Node that writes one shared buffer.
 *
 * Both deliver the same events at the same pace to every connected client. The gateway runs behind its handler, with keys and
 * leases that are kept in memory here, and gets its batches as the log's reader would deliver them.
 */
import { once } from 'node:events'
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { loadTiers } from '#infra/config/tiers.ts'
import type { Credential, KeyAnswer } from '#infra/http/credential.ts'
import type { Metered } from '#infra/redis/request-meter.ts'
import { keepHeapSmall } from '#infra/runtime/heap.ts'
import { openLog } from '#infra/runtime/log.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { bearerOf, hashOfKey } from '#services/accounts/access/reader.ts'
import { itemsFrames, openItemText, rowOf } from '#services/feed/frames.ts'
import { openGateway } from '#services/feed/gateway.ts'
import { openFeedMetrics } from '#services/feed/metrics.ts'
import { openFeedHandler } from '#services/feed/routes.ts'
import { batchOf, openFeedWithoutLog } from '#test/fixtures/feed-without-log.ts'
import { changed } from '#test/harness/published-records.ts'
import { answerAsBaseline, measured } from '../baseline.ts'

/** Which server, and the most unread bytes of a client where it knows any. */
export interface FeedOpening {
  kind: 'gateway' | 'plain'
  capBytes?: number
}

export interface FeedPace {
  events: number
  perSecond: number
  items?: number
}

export interface FeedMemory {
  peakMib: number
}

const MIB = 2 ** 20
const quota = { quota: 1, windowSeconds: 60, remaining: 1, resetSeconds: 0 }
const UNLIMITED: Metered = { refusedBy: undefined, minute: quota, month: quota, resetAt: 0 }
const items = Array.from(
  { length: 100 },
  (_, at) =>
    ({ item_id: at + 1, market_hash_name: `AK-47 | Redline ${at} (Field-Tested)`, phase: null }) as CatalogItem,
)
/** The first quantity is when the event was made, in microseconds of the clock that all processes share. */
function changesNow(count: number): BookChanged[] {
  const about = { seen_at: Date.now() }
  const made = Number(process.hrtime.bigint() / 1_000n)
  return items.slice(0, count).map(({ item_id }, at) => changed({ ...about, item_id, quantity: at > 0 ? 1 : made }))
}

let deliver: (count: number) => Promise<void>
let peakBytes = 0

function plainServer(): RequestListener {
  const open = new Set<ServerResponse>()
  const itemText = openItemText()
  deliver = async count => {
    const changes = changesNow(count)
    const texts = changes.map(change => itemText(items[change.item_id - 1] as CatalogItem, rowOf(change)))
    const listing = { side: 'ask', provider: 'p', seenAt: changes[0]?.seen_at ?? 0 } as const
    for (const { bytes } of itemsFrames(listing, texts)) for (const response of open) response.write(bytes)
  }
  return (_request, response) => {
    response.removeHeader('transfer-encoding')
    response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
    open.add(response)
    response.once('close', () => open.delete(response))
  }
}

function gatewayServer(capBytes?: number): RequestListener {
  // As a process of the feed alone runs.
  keepHeapSmall()
  const log = openLog({ level: 'silent', name: 'bench' })
  const metrics = openFeedMetrics(openMetrics())
  const itemOf = (itemId: number) => items[itemId - 1]
  const { items: frameItems, log: window, handler } = openFeedWithoutLog(itemOf)
  const gateway = openGateway({ ...frameItems, metrics, log, mayListen: () => true, ...(capBytes && { capBytes }) })
  const known = new Map<string, KeyAnswer>()
  const authenticateHash = (hash: string): KeyAnswer => {
    const answer = known.get(hash) ?? {
      accepted: true,
      credential: { keyId: hash, lineageId: hash, tier: 'quant' } as Credential,
    }
    known.set(hash, answer)
    return answer
  }
  const authenticate = (authorization: string | undefined) => authenticateHash(hashOfKey(bearerOf(authorization) ?? ''))
  const none = () => Promise.reject(new Error('there are no tokens'))
  deliver = count => gateway.deliver(batchOf(changesNow(count)), window)
  return openFeedHandler({
    ...{ gateway, metrics, ...handler, providerKeys: ['p'], providersOf: { ask: ['p'], bid: ['p'], sale: [] } },
    catalog: { byId: itemOf, idsOfName: () => [] },
    unavailable: () => undefined,
    access: {
      keys: { authenticate, authenticateHash },
      tokens: { issue: none, read: none, keep: none },
      connectionsOf: () => Number.POSITIVE_INFINITY,
      leases: { take: async () => ({ release: () => undefined, replaced: new AbortController().signal }) },
    },
    limits: {
      meter: { take: async () => UNLIMITED, read: async () => UNLIMITED },
      addresses: { perMinute: 60, charge: async () => undefined, giveBack: async () => undefined },
      clientOf: () => undefined,
      tiers: loadTiers(),
      noteUse: () => undefined,
    },
    log,
  })
}

answerAsBaseline({
  async open({ kind, capBytes }: FeedOpening) {
    const server = createServer(kind === 'plain' ? plainServer() : gatewayServer(capBytes))
    server.listen(0, '127.0.0.1', 4_096)
    await once(server, 'listening')
    return (server.address() as AddressInfo).port
  },
  run: ({ events, perSecond, items: count = 1 }: FeedPace) =>
    measured(async () => {
      const startedAt = performance.now()
      for (let at = 0; at < events; at++) {
        const early = startedAt + (at * 1_000) / perSecond - performance.now()
        if (early > 0) await delay(early)
        await deliver(count)
        if (at % perSecond === 0) peakBytes = Math.max(peakBytes, process.memoryUsage.rss())
      }
      return events
    }),
  async memory(): Promise<FeedMemory> {
    const peakMib = peakBytes / MIB
    peakBytes = 0
    return { peakMib }
  },
})
