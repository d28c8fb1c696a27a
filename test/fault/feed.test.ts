/**
 * Streams that begin with the current state or resume, on a moving market, while gateways are killed.
 *
 * A writer publishes refreshes of random rows and keeps every row's history: a version of a row is its quantity, which
 * never comes twice. A client's events are walked along these histories, so that a gap, a repeat or a wrong order of
 * any row shows at the event where it happens; at the end every client must hold what the market holds.
 */
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { type FeedListeners, openFeedListeners } from '#test/fixtures/feed-listeners.ts'
import { firstItems, type MovingMarket, openMovingMarket } from '#test/fixtures/moving-market.ts'
import { eventually } from '#test/harness/eventually.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import type { SpawnedRole } from '#test/harness/spawn-role.ts'
import { openSse, type SseClient } from '#test/harness/sse-client.ts'
import { useServers } from '#test/harness/use-servers.ts'

const IS_LONG = process.env.FAULT === 'long'
const PAIRS = IS_LONG ? 300 : 12
const KILLS = IS_LONG ? 40 : 3
const ARRIVES_MS = 30_000
/** The long run replays what forty kills have let pass, near a million changes. */
/** Version, count and checksum, an offset per partition of four bytes, and for each of four providers that lag a name and as many. */
const LONGEST_ID = Math.ceil(((6 + 4 * ITEM_PARTITIONS + 4 * (16 + 4 * ITEM_PARTITIONS)) * 4) / 3)

describe('feeds that resume', function () {
  this.timeout(IS_LONG ? 3_600_000 : 240_000)
  const platform = useServers({ catalog: 'whole' })
  let kafka: KafkaConnection
  let publisher: Publisher
  let market: MovingMarket
  let steady: string
  let listeners: FeedListeners
  /** What moves the market while a test runs. */
  const stopping: AbortController[] = []

  afterEach(() => {
    for (const one of stopping) one.abort()
  })

  before(async () => {
    kafka = platform.connect()
    publisher = await platform.openPublisher(kafka, 'book')
    listeners = openFeedListeners(platform, ARRIVES_MS)
    const items = await firstItems(kafka, 600)
    const random = seededRandom('feeds that resume')
    market = openMovingMarket({ publisher, codec: kafka.codec, random, items })
    const roles = await platform.startRoles(['live-view', 'feed'])
    await roles.ready()
    steady = roles.baseUrl
  })
  after(async () => {
    listeners?.close()
  })

  const listen: FeedListeners['listen'] = (...asked) => listeners.listen(...asked)
  const idOf = (client: SseClient) => client.events.findLast(({ id }) => id !== undefined)?.id

  it('begin with the state and go on with exactly what follows, at random moments of a moving market', async () => {
    const { random } = market
    for (let round = 0; round < 12; round++) await market.refresh()
    for (let pair = 0; pair < PAIRS; pair++) {
      const filter = random.chance(0.5) ? '' : `&${market.someFilter()}`
      const path = `/feed/${random.chance(0.7) ? 'prices' : 'bids'}?snapshot=true${filter}`
      const moving = market.refreshes(random.integer(1, 6))
      const first = await listen(steady, path)
      await moving
      const movingOn = market.refreshes(random.integer(1, 6))
      const later = await listen(steady, path)
      await movingOn
      for (const client of [first, later]) {
        await client.event(({ event }) => event === 'snapshot.end')
        await eventually(() => market.isUpToDate(client, path), `pair ${pair}: the state of the market`)
        market.expectChain(client.events, { from: 'state' })
        client.close()
      }
    }
    console.log(`      ${PAIRS} pairs, ${market.published()} changes`)
  })

  it('go on at another gateway where one was killed, without gap or repeat, in the order of each row', async () => {
    const { random } = market
    const paths = ['/feed/prices?resume=true', `/feed/prices?resume=true&${market.someFilter()}`]
    const pieces: SseClient[][] = []
    for (const path of paths) {
      const first = await listen(steady, `${path}&snapshot=true`)
      await first.event(({ event }) => event === 'snapshot.end')
      pieces.push([first])
    }
    const stop = new AbortController()
    stopping.push(stop)
    const moving = (async () => {
      while (!stop.signal.aborted) await market.refresh()
    })()
    for (let kill = 0; kill < KILLS; kill++) {
      const gateway: SpawnedRole = await platform.spawnRole('feed', { PORT: '0' })
      const base = await gateway.baseUrl()
      for (const [at, path] of paths.entries()) {
        const before = pieces[at]?.at(-1) as SseClient
        await before.event(({ id }) => id !== undefined)
        before.close()
        const next = await listen(base, path, idOf(before))
        pieces[at]?.push(next)
      }
      const waitFor = random.integer(1, 40)
      await eventually(() => (pieces[0]?.at(-1)?.events.length ?? 0) > waitFor, 'some events')
      gateway.kill('SIGKILL')
      await gateway.ended
      for (const [at, path] of paths.entries()) {
        const before = pieces[at]?.at(-1) as SseClient
        await eventually(() => before.hasEnded(), 'the end of the stream')
        // Nothing may have come of the killed gateway: then the position is the one before.
        const last = pieces[at]?.findLast(piece => idOf(piece) !== undefined) as SseClient
        pieces[at]?.push(await listen(steady, path, idOf(last)))
      }
    }
    stop.abort()
    await moving
    for (const [at, path] of paths.entries()) {
      const own = pieces[at] ?? []
      const all = () => own.flatMap(piece => market.upToLastId(piece, piece === own.at(-1)))
      await eventually(() => market.isUpToDate({ events: all() }, path), 'the state of the market')
      expect(all().filter(({ event }) => event === 'resync')).to.deep.equal([])
      market.expectChain(all(), { from: 'state' })
      for (const { event, id } of all())
        if (event.endsWith('.changed') && id !== undefined) expect(id.length).to.be.at.most(LONGEST_ID)
    }
    console.log(`      ${KILLS} kills, ${market.published()} changes`)
  })

  it('send resync for an id that is none, of another feed, or of another platform, and then go on live', async () => {
    const prices = await listen(steady, '/feed/prices?resume=true&snapshot=true')
    const { id: foreign } = await prices.event(({ event }) => event === 'snapshot.end')
    for (const [side, path, id] of [
      ['ask', '/feed/prices?resume=true', 'nonsense'],
      ['bid', '/feed/bids?resume=true', foreign ?? ''],
    ] as const) {
      const client = await listen(steady, path, id)
      const { data, id: position } = await client.event(({ event }) => event === 'resync')
      expect(data).to.deep.equal({ reason: 'unknown' })
      const again = await listen(steady, path, position)
      await market.refresh(side)
      await again.event(({ event }) => event.endsWith('.changed'))
      expect(again.events.map(({ event }) => event)).not.to.include('resync')
    }
  })

  it('are what the specification says where nothing is asked for, whatever a client brings along', async () => {
    const client = await listen(steady, '/feed/prices', 'nonsense')
    await market.refresh('ask')
    await eventually(() => client.events.length > 1, 'a change')
    expect(client.events.map(({ id }) => id)).to.deep.equal(client.events.map(() => undefined))
    expect(new Set(client.events.map(({ event }) => event))).to.deep.equal(new Set(['ready', 'prices.changed']))
  })

  it('replay what was recorded, all of it or a part, as fast as asked for', async () => {
    await market.refreshes(4)
    const ended = async (path: string) => {
      const client = await listen(steady, path)
      await client.event(({ event }) => event === 'replay.end')
      await eventually(() => client.hasEnded(), 'the end of the replay')
      return client
    }
    const all = await ended('/feed/replay/prices?from=2026-01-01&to=2027-01-01&speed=0')
    market.expectChain(all.events, { from: 'nothing' })
    expect(all.events.at(-1)?.data).to.deep.equal({ items: market.changesOf('ask') })
    const again = await ended('/feed/replay/prices?from=2026-01-01&to=2027-01-01&speed=0')
    expect(again.events).to.deep.equal(all.events)

    const momentOf = ({ data }: { data: unknown }) => (data as { seen_at?: string }).seen_at ?? ''
    // At the lower speed it waits so long that it gives its seat back, and reads on from a position each time.
    for (const [spanMs, speed] of [
      [8_000, 10],
      [8_000, 2],
    ] as const) {
      const [from, to] = [market.now() - spanMs, market.now() + 1].map(at => new Date(at).toISOString())
      const startedAt = performance.now()
      const part = await ended(`/feed/replay/prices?from=${from}&to=${to}&speed=${speed}x`)
      const within = (moment: string) => moment >= (from ?? '') && moment < (to ?? '')
      const expected = all.events.filter(event => within(momentOf(event)))
      expect(part.events.slice(1, -1)).to.deep.equal(expected)
      const moments = expected.map(event => Date.parse(momentOf(event)))
      const span = Math.max(...moments) - Math.min(...moments)
      expect(performance.now() - startedAt).to.be.at.least(span / speed)
      console.log(`      ${expected.length} events in ${span} ms at ${speed} times`)
    }
  })

  it('refuse a replay of a range that cannot be replayed', async () => {
    const key = await platform.newKey()
    for (const [query, loc] of [
      ['', 'from'],
      ['from=yesterday', 'from'],
      ['from=2026-01-02&to=2026-01-01', 'to'],
      ['from=2026-01-01&speed=fast', 'speed'],
      ['from=2026-01-01&speed=99999x', 'speed'],
    ]) {
      const client = await openSse(`${steady}/v1/feed/replay/prices?${query}`, { key })
      const { detail } = (await client.body()) as { detail: { loc: string[] }[] }
      expect([client.status, detail[0]?.loc]).to.deep.equal([422, ['query', loc]])
    }
  })
})
