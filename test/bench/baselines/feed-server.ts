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
import type { Credential, KeyAnswer } from '#infra/http/credential.ts'
import { keepHeapSmall } from '#infra/runtime/heap.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { itemsFrames, openItemText, rowOf } from '#services/feed/frames.ts'
import { openFeedWithoutLog } from '#test/fixtures/feed-without-log.ts'
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
  const known = new Map<string, KeyAnswer>()
  const feed = openFeedWithoutLog(openMetrics(), {
    providerKeys: ['p'],
    providersOf: { ask: ['p'], bid: ['p'], sale: [] },
    itemOf: itemId => items[itemId - 1],
    authenticateHash(hash) {
      const credential = { keyId: hash, lineageId: hash, tier: 'quant' } as Credential
      const answer = known.get(hash) ?? { accepted: true, credential }
      known.set(hash, answer)
      return answer
    },
    gateway: capBytes === undefined ? {} : { capBytes },
  })
  deliver = count => feed.deliver(changesNow(count))
  return feed.handler
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
