/**
 * Open streams on a real socket: what goes over the wire, what ends a stream, and what a client that
 * does not read costs. No log and no key store: batches and judgements are arguments.
 */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { mock } from 'node:test'
import { promisify } from 'node:util'
import { expect } from 'chai'
import type { Credential, KeyAnswer } from '#infra/http/credential.ts'
import { type Metrics, openMetrics } from '#infra/runtime/metrics.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { hashOfKey } from '#services/accounts/access/reader.ts'
import type { Gateway } from '#services/feed/gateway.ts'
import { openFeedWithoutLog } from '#test/fixtures/feed-without-log.ts'
import { eventually } from '#test/harness/eventually.ts'
import { changed } from '#test/harness/published-records.ts'
import { openSse, type SseClient } from '#test/harness/sse-client.ts'

const KEYS = ['p', 'q']
const textOf = (key: string) => `sk_live_root_${key.padEnd(43, '0')}`
const CAP_BYTES = 4 * 2 ** 20

/** Changes of a batch: more than one event, about 100 kB. */
const BULK = 1_000
const bulk = (seen_at: number) =>
  Array.from({ length: BULK }, (_, at) => changed({ item_id: at + 1, seen_at, refresh_id: String(seen_at) }))

function momentsOf({ events }: SseClient): { seenAt: number; items: number }[] {
  const changes = events.slice(1).map(({ data }) => data as { seen_at: string; items: unknown[] })
  return [...Map.groupBy(changes, ({ seen_at }) => seen_at)].map(([seenAt, own]) => ({
    seenAt: Date.parse(seenAt),
    items: own.reduce((sum, { items }) => sum + items.length, 0),
  }))
}

const connections = (server: Server) => promisify(server.getConnections.bind(server))()

describe('feed streams', () => {
  let server: Server
  let gateway: Gateway
  let deliverChanges: ReturnType<typeof openFeedWithoutLog>['deliver']
  let base: string
  let reason: string | undefined
  let answers: Map<string, KeyAnswer | Error>
  let judgements: number
  let clients: SseClient[]
  let registry: Metrics

  const metric = (name: string) => registry.registry.getSingleMetricAsString(name)
  const authenticateHash = (hash: string): KeyAnswer | Promise<KeyAnswer> => {
    judgements += 1
    const answer = answers.get(hash)
    if (answer instanceof Error) return Promise.reject(answer)
    return answer ?? { accepted: false, code: 'AUTH_INVALID_API_KEY', detail: 'unknown' }
  }
  const say = (key: string, answer: KeyAnswer | Error) => answers.set(hashOfKey(textOf(key)), answer)
  const admit = (key: string, tier: Credential['tier'] = 'quant') =>
    say(key, { accepted: true, credential: { keyId: key, lineageId: key, tier } as Credential })
  const open = async (path: string, key = 'k') => {
    const client = await openSse(base + path, { key: textOf(key) })
    clients.push(client)
    return client
  }

  /** Delivers until a stream ends because its client does not read, while another keeps up; returns the number of batches. */
  const deliverUntilTooSlow = async (good?: SseClient): Promise<number> => {
    let batches = 0
    const isOver = async () => {
      for (let count = 0; count < 20; count++) {
        await deliverChanges(bulk(++batches))
      }
      if (good) await eventually(() => momentsOf(good)[batches - 1]?.items === BULK, 'everything at the other')
      // The socket's own buffers take some megabytes before the cap is reached.
      return (await metric('feed_ended_total')).includes('too_slow')
    }
    await eventually(isOver, 'the end of the slow stream')
    return batches
  }

  beforeEach(() => start())
  async function start(times: { endLimitMs?: number; now?: () => number } = {}): Promise<void> {
    clients = []
    answers = new Map()
    judgements = 0
    reason = undefined
    admit('k')
    registry = openMetrics()
    // Counted over all processes by infra/redis (feed.test.ts).
    const leased = new Map<string, number>()
    const add = (subject: string, more: number) => leased.set(subject, (leased.get(subject) ?? 0) + more)
    const feed = openFeedWithoutLog(registry, {
      authenticateHash,
      providerKeys: KEYS,
      providersOf: { ask: KEYS, bid: ['q'], sale: [] },
      itemOf: item_id => ({ item_id, market_hash_name: `Item ${item_id}`, phase: null }) as CatalogItem,
      connectionsOf: ({ tier }) => (tier === 'quant' ? 2 : 0),
      async takeLease(subject, max) {
        if ((leased.get(subject) ?? 0) >= max) return undefined
        add(subject, 1)
        return { release: () => void add(subject, -1), replaced: new AbortController().signal }
      },
      unavailable: () => reason,
      gateway: { capBytes: CAP_BYTES, endLimitMs: 600_000, ...times },
    })
    gateway = feed.gateway
    deliverChanges = feed.deliver
    server = createServer(feed.handler).listen(0, '127.0.0.1')
    await once(server, 'listening')
    base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  afterEach(() => stop())
  async function stop(): Promise<void> {
    for (const client of clients) client.close()
    await gateway.stop()
    server.closeAllConnections()
    server.close()
  }

  it('opens with the promised headers and `ready`', async () => {
    const client = await open('/feed/prices')
    expect(client.status).to.equal(200)
    expect(client.headers).to.include({
      'content-type': 'text/event-stream',
      'cache-control': 'private, no-cache, no-transform',
      'x-accel-buffering': 'no',
      connection: 'close',
      'access-control-allow-origin': '*',
    })
    expect(client.headers['x-request-id']).to.match(/^[\w-]{8,}$/)
    await client.event(({ event }) => event === 'ready')
    const data = { providers: KEYS, item_ids_filter_count: 0, market_hash_names_filter_count: 0 }
    expect(client.events).to.deep.equal([{ event: 'ready', data, id: undefined }])
  })

  it('pings after twenty seconds of silence, on each stream by itself, and no sooner', async () => {
    await stop()
    mock.timers.enable({ apis: ['setInterval'] })
    try {
      let clock = 0
      await start({ now: () => clock })
      const passes = (seconds: number) => {
        for (let half = 0; half < seconds * 2; half++) {
          clock += 500
          mock.timers.tick(500)
        }
      }
      const deliver = (side: 'ask' | 'bid', seen_at: number) =>
        deliverChanges([changed({ side, provider: 'q', seen_at })])
      const busy = await open('/feed/prices')
      const idle = await open('/feed/bids')
      passes(19)
      await deliver('ask', 1)
      await deliver('bid', 1)
      await eventually(() => busy.events.length === 2 && idle.events.length === 2, 'the first changes')
      expect([busy.comments, idle.comments]).to.deep.equal([[], []])
      passes(19)
      await deliver('ask', 2)
      passes(2)
      await eventually(() => idle.comments.length === 1, 'the ping of the idle stream')
      passes(17)
      await deliver('ask', 3)
      await eventually(() => busy.events.length === 4, 'the third change')
      expect(busy.comments).to.deep.equal([])
      passes(21)
      await eventually(() => busy.comments.length === 1 && idle.comments.length === 2, 'a ping each')
      expect(new Set([...busy.comments, ...idle.comments])).to.deep.equal(new Set(['ping']))
    } finally {
      mock.timers.reset()
    }
  })

  it('opens behind another request of its connection when that one is answered', async () => {
    const { port } = server.address() as AddressInfo
    const socket = connect(port, '127.0.0.1')
    let text = ''
    socket.setEncoding('utf8').on('data', chunk => {
      text += chunk
    })
    const ask = (path: string) => `GET ${path} HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer ${textOf('k')}\r\n\r\n`
    socket.write(ask('/feed/nothing') + ask('/feed/prices'))
    await eventually(() => text.includes('event: ready'), 'the stream')
    expect(text.match(/HTTP\/1\.1 \d+/g)).to.deep.equal(['HTTP/1.1 404', 'HTTP/1.1 200'])
    socket.destroy()
    await eventually(async () => (await metric('feed_ended_total')).includes('client'), 'its end')
  })

  it('repeats in `ready` what was asked for, and the buy-order providers on the other feed', async () => {
    const query = '?providers=q&item_ids=1&item_ids=1&market_hash_names=x'
    const asked = await (await open(`/v1/feed/prices${query}`)).event(({ event }) => event === 'ready')
    expect(asked.data).to.deep.equal({ providers: ['q'], item_ids_filter_count: 2, market_hash_names_filter_count: 1 })
    const bids = await (await open('/feed/bids')).event(({ event }) => event === 'ready')
    expect(bids.data).to.include({ item_ids_filter_count: 0 }).and.to.have.property('providers').that.deep.equals(['q'])
  })

  it('answers 503 while the log cannot be read, and while keys cannot be checked; what is refused holds no lease', async () => {
    reason = 'the log can no longer be read'
    const unread = await open('/feed/prices')
    expect([unread.status, ((await unread.body()) as { code: string }).code]).to.deep.equal([
      503,
      'SERVICE_UNAVAILABLE',
    ])
    reason = undefined
    say('k', new Error('Postgres does not answer'))
    expect((await open('/feed/prices')).status).to.equal(503)
    admit('k')
    for (let count = 0; count < 3; count++) expect((await open('/feed/prices?item_ids=x')).status).to.equal(422)
    // The refused attempts hold no lease.
    expect((await open('/feed/prices')).status).to.equal(200)
    expect((await open('/feed/prices')).status).to.equal(200)
  })

  it('ends the streams of a key that is revoked, and no others', async () => {
    admit('other')
    const revoked = [await open('/feed/prices'), await open('/feed/bids')]
    const other = await open('/feed/prices', 'other')
    say('k', { accepted: false, code: 'AUTH_API_KEY_REVOKED', detail: 'revoked' })
    await eventually(() => revoked.every(client => client.hasEnded()), 'the end of both streams')
    expect(revoked[0]?.comments.at(-1)).to.match(/^closed: .*key/)
    await deliverChanges([changed({})])
    await other.event(({ event }) => event === 'prices.changed')
  })

  it('ends the streams of a key whose tier lost the feeds', async () => {
    const client = await open('/feed/prices')
    admit('k', 'pro')
    await eventually(() => client.hasEnded(), 'the end of the stream')
  })

  it('lets streams live on while keys cannot be checked', async () => {
    const client = await open('/feed/prices')
    say('k', new Error('Postgres does not answer'))
    const before = judgements
    await eventually(() => judgements >= before + 3, 'three checks')
    await deliverChanges([changed({})])
    await client.event(({ event }) => event === 'prices.changed')
  })

  it('ends a client that does not read at its cap, and another gets everything meanwhile', async () => {
    admit('slow')
    const good = await open('/feed/prices')
    const slow = await open('/feed/prices', 'slow')
    slow.pause()
    const batches = await deliverUntilTooSlow(good)
    expect(momentsOf(good)).to.deep.equal(Array.from({ length: batches }, (_, at) => ({ seenAt: at + 1, items: BULK })))
    slow.resume()
    await eventually(() => slow.hasEnded(), 'the end of the slow stream at its client')
    expect(slow.comments.at(-1)).to.match(/^closed: more than \d+ bytes/)
    expect(slow.events.length).to.be.below(good.events.length)
  })

  it('cuts a client that never reads again', async () => {
    await stop()
    await start({ endLimitMs: 50 })
    const stalled = await open('/feed/prices')
    stalled.pause()
    await deliverUntilTooSlow()
    await eventually(async () => (await connections(server)) === 0, 'the end of the connection')
  })

  it('delivers the latest of each row to a slow client with policy=conflate, and never ends it', async () => {
    const slow = await open('/feed/prices?policy=conflate')
    await slow.event(({ event }) => event === 'ready')
    slow.pause()
    const rounds = 300
    for (let round = 1; round <= rounds; round++) {
      const kind = round === 1 ? 'added' : 'updated'
      const changes = bulk(round).map(one => ({ ...one, change: kind as 'added' | 'updated', quantity: round }))
      await deliverChanges(changes)
    }
    expect(await metric('feed_ended_total')).not.to.include('too_slow')
    slow.resume()
    type ChangedData = { items: { item_id: number; qty: number; change: string }[] }
    const state = new Map<number, number>()
    const isCurrent = () => {
      for (const { event, data } of slow.events) {
        if (event === 'ready') continue
        for (const { item_id, qty, change } of (data as ChangedData).items) {
          if (!state.has(item_id)) expect(change).to.equal('added')
          state.set(item_id, qty)
        }
      }
      return state.size === 1_000 && [...state.values()].every(qty => qty === rounds)
    }
    await eventually(isCurrent, 'the latest of every row')
    expect(slow.events.length).to.be.below(rounds)
  })
})
