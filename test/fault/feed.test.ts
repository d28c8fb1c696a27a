/**
 * Streams that begin with the current state or replay, on a moving market, and how many may at once. Clients that resume are
 * feed-cuts.test.ts' matter. A version of a row is its quantity, which never comes twice: a client's events are walked along the histories of
 * the rows, so that a gap, a repeat or a wrong order shows at the event where it happens.
 */
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { HOUR_MS } from '#schemas/values/instant.ts'
import { startWithin } from '#services/feed/main.ts'
import { firstItems, type MovingMarket, openMovingMarket } from '#test/fixtures/moving-market.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectBalanced, openLedger } from '#test/harness/ledger.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import { changedRows, openSse, type SseClient, type SseEvent, upToLastId } from '#test/harness/sse-client.ts'
import { useServers } from '#test/harness/use-servers.ts'

const IS_LONG = process.env.FAULT === 'long'
const PAIRS = IS_LONG ? 300 : 12
/** Streams that may begin at once, and how many come. */
const [STARTING, CROWD] = [3, 40]
/** Signature, version and count, an offset per partition of four bytes, and for each of four providers that lag a name and as many. */
const LONGEST_ID = Math.ceil(((14 + 4 * ITEM_PARTITIONS + 4 * (16 + 4 * ITEM_PARTITIONS)) * 4) / 3)
const ARRIVES_MS = 30_000

interface Client {
  key: string
  path: string
  /** Whether it asks for the state when it begins, since the market has moved before. */
  fromState: boolean
  pieces: SseClient[]
}

describe('feeds that resume', function () {
  this.timeout(IS_LONG ? HOUR_MS : 240_000)
  const platform = useServers({ catalog: 'whole' })
  let kafka: KafkaConnection
  let market: MovingMarket
  let steady: string
  const clients: Client[] = []

  before(async () => {
    kafka = platform.connect()
    const publisher = await platform.openPublisher(kafka, 'book')
    const items = await firstItems(kafka, 600)
    market = openMovingMarket({ publisher, codec: kafka.codec, random: seededRandom('feeds that resume'), items })
    const roles = await platform.startRoles(['live-view', 'feed'])
    await roles.ready()
    steady = roles.baseUrl
  })
  afterEach(() => {
    for (const { pieces } of clients.splice(0)) for (const piece of pieces) piece.close()
  })

  async function newClient(path = somePath(), fromState = market.published() > 0): Promise<Client> {
    const client = { key: await platform.newKey(), path, fromState, pieces: [] }
    clients.push(client)
    return client
  }
  function somePath(): string {
    const { random } = market
    const filter = random.chance(0.3) ? '' : `&${market.someFilter()}`
    return `/feed/${random.chance(0.7) ? 'prices' : 'bids'}?resume=true${filter}`
  }
  const idOf = ({ pieces }: Client) =>
    pieces.flatMap(({ events }) => events.map(({ id }) => id)).findLast(id => id !== undefined)

  /** Lets a client go on where it left off; returns the refusals that it met. */
  async function connect(client: Client, base: string): Promise<SseClient[]> {
    const id = idOf(client)
    const headers: Record<string, string> = id === undefined ? {} : { 'last-event-id': id }
    const path = id === undefined && client.fromState ? `${client.path}&snapshot=true` : client.path
    const refused: SseClient[] = []
    const isOpen = async () => {
      const answer = await openSse(base + path, { key: client.key, headers })
      if (answer.status !== 200) refused.push(answer)
      else client.pieces.push(answer)
      return answer.status === 200
    }
    await eventually(isOpen, 'a stream', ARRIVES_MS)
    return refused
  }
  async function listen(path: string): Promise<SseClient> {
    const client = await newClient(path, false)
    await connect(client, steady)
    return client.pieces[0] as SseClient
  }
  /** The first event of a client's stream: an id to come back with. */
  const hasBegun = ({ pieces, fromState }: Client) =>
    pieces.at(-1)?.event(({ event }) => event === (fromState && pieces.length === 1 ? 'snapshot.end' : 'ready'))

  const eventsOf = ({ pieces }: Client): SseEvent[] =>
    pieces.flatMap(({ events }, at) => (at === pieces.length - 1 ? events : upToLastId(events)))

  async function expectAllDelivered(): Promise<void> {
    for (const client of clients) {
      const isUpToDate = () => market.isUpToDate({ events: eventsOf(client) }, client.path)
      await eventually(isUpToDate, `the state of the market at ${client.path}`)
      const events = eventsOf(client)
      market.expectChain(events, { from: client.fromState ? 'state' : 'nothing' })
      expect(events.map(({ event }) => event)).not.to.include('resync')
      for (const { event, id } of events)
        if (event.endsWith('.changed') && id !== undefined) expect(id.length).to.be.at.most(LONGEST_ID)
    }
  }

  it('begin with the state and go on with exactly what follows, at random moments of a moving market', async () => {
    const { random } = market
    for (let round = 0; round < 12; round++) await market.refresh()
    for (let pair = 0; pair < PAIRS; pair++) {
      const filter = random.chance(0.5) ? '' : `&${market.someFilter()}`
      const path = `/feed/${random.chance(0.7) ? 'prices' : 'bids'}?snapshot=true${filter}`
      const moving = market.refreshes(random.integer(1, 6))
      const first = await listen(path)
      await moving
      const movingOn = market.refreshes(random.integer(1, 6))
      const later = await listen(path)
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

  it('have those beyond the bound asked to retry, each at a time of its own, and serve them in the end', async () => {
    // Without a window each stream is read from the log.
    const limits = { starting: STARTING, replays: 1, windowBytes: 0 }
    const roles = await platform.startRoles([context => startWithin(limits, context)])
    await roles.ready()
    for (let at = 0; at < CROWD; at++) {
      const client = await newClient()
      await connect(client, roles.baseUrl)
      await hasBegun(client)
    }
    for (const { pieces } of clients) pieces.at(-1)?.close()
    // Enough that the first are still reading when the last come.
    await market.refreshes(100)
    const refused = (await Promise.all(clients.map(client => connect(client, roles.baseUrl)))).flat()
    expect(refused.length, 'refused').to.be.at.least(CROWD / 4)
    for (const { status, body } of refused) {
      expect([status, ((await body()) as { code: string }).code]).to.deep.equal([503, 'SERVICE_UNAVAILABLE'])
    }
    const waits = refused.map(({ headers }) => Number(headers['retry-after']))
    for (const seconds of waits) expect(seconds).to.be.within(1, 10)
    expect(new Set(waits).size, 'times to come back').to.be.above(2)
    await expectAllDelivered()
    const gauge = () => roles.metrics.registry.getSingleMetricAsString('feed_catching_up')
    await eventually(async () => (await gauge()).includes('feed_catching_up 0'), 'all to be live')
    console.log(`      ${refused.length} refused`)
  })

  it('are as many replays as a gateway may have open, one an account, and those that wait for their time hold up no other', async () => {
    const limits = { starting: 1, replays: 3, windowBytes: 2 ** 20 }
    const roles = await platform.startRoles([context => startWithin(limits, context)])
    await roles.ready()
    await market.refreshes(20)
    const opened: SseClient[] = []
    const open = async (key: string, path: string, headers: Record<string, string> = {}) => {
      const client = await openSse(roles.baseUrl + path, { key, headers })
      opened.push(client)
      return client
    }
    const replay = (key: string, speed: string) =>
      open(key, `/feed/replay/prices?from=2026-01-01&to=2027-01-01&speed=${speed}`)
    const refusalOf = async (client: SseClient) => [client.status, ((await client.body()) as { code: string }).code]
    const isEnd = ({ event }: SseEvent) => event === 'replay.end'
    try {
      const [one, other, third, fourth] = await Promise.all([1, 2, 3, 4].map(() => platform.newKey()))
      // Used to hold up all that follows while they waited for their time: 503.
      const slow = [await replay(one as string, '0.1'), await replay(other as string, '0.1x')]
      expect(slow.map(({ status }) => status)).to.deep.equal([200, 200])
      for (const client of slow) await client.event(({ event }) => event === 'prices.changed')
      const again = await replay(one as string, '0')
      expect(await refusalOf(again)).to.deep.equal([429, 'RATE_LIMIT_FEED_CONNECTIONS_EXCEEDED'])
      expect(Number(again.headers['retry-after'])).to.be.within(1, 10)
      const whole = await replay(third as string, '0')
      await whole.event(isEnd)
      // Free as soon as the client has its last event.
      const second = await replay(third as string, '0')
      expect(second.status).to.equal(200)
      await second.event(isEnd)
      const live = await open(third as string, '/feed/prices?resume=true')
      const { id } = await live.event(({ event }) => event === 'ready')
      live.close()
      await market.refreshes(5)
      const resumed = await open(third as string, '/feed/prices?resume=true', { 'last-event-id': id as string })
      expect(resumed.status, 'a stream that resumes').to.equal(200)
      await resumed.event(({ event }) => event === 'prices.changed')
      resumed.close()
      expect(slow.map(client => client.hasEnded())).to.deep.equal([false, false])
      const last = await replay(third as string, '0.1')
      await last.event(({ event }) => event === 'prices.changed')
      const refused = await replay(fourth as string, '0')
      expect(await refusalOf(refused)).to.deep.equal([503, 'SERVICE_UNAVAILABLE'])
      expect(Number(refused.headers['retry-after'])).to.be.within(1, 10)
      slow[0]?.close()
      const next = async () => {
        const answer = await replay(fourth as string, '0')
        return answer.status === 200 ? answer : undefined
      }
      await (await eventually(next, 'a replay')).event(isEnd)
    } finally {
      for (const client of opened) client.close()
    }
  })

  it('replay what was recorded, all of it or a part, as fast as asked for', async () => {
    await market.refreshes(40)
    const ended = async (path: string) => {
      const client = await listen(path)
      await client.event(({ event }) => event === 'replay.end')
      await eventually(() => client.hasEnded(), 'the end of the replay')
      return client
    }
    const recorded = (await readTopic(kafka, 'bookChanges'))
      .filter(({ event, value }) => event === 'BookChanged' && value.side === 'ask')
      .toSorted((one, other) => one.timestamp - other.timestamp || one.offset - other.offset)
    const entry = (provider: string, itemId: number, ...what: (string | number)[]) => ({
      key: `${provider} ${itemId}`,
      what: what.join(' '),
    })
    const expected = recorded.map(({ value: { provider, item_id, seen_at, change, quantity } }) =>
      entry(provider, item_id, seen_at, change, quantity),
    )
    const all = await ended('/feed/replay/prices?from=2026-01-01&to=2027-01-01&speed=0')
    expect(all.events.at(-1)?.data).to.deep.equal({ items: recorded.length })
    const actual = all.events
      .flatMap(changedRows)
      .flatMap(({ provider, seen_at, items }) =>
        items.map(({ item_id, change, qty }) => entry(provider, item_id, Date.parse(seen_at), change, qty)),
      )
    expectBalanced({ 'prices replayed': openLedger(expected, actual, 200) })

    const momentOf = (event: SseEvent) => changedRows(event)[0]?.seen_at ?? ''
    const [from, to] = [market.now() - 8_000, market.now() + 1].map(at => new Date(at).toISOString())
    const startedAt = performance.now()
    const part = await ended(`/feed/replay/prices?from=${from}&to=${to}&speed=4x`)
    const within = (moment: string) => moment >= (from ?? '') && moment < (to ?? '')
    const wanted = all.events.filter(event => within(momentOf(event)))
    expect(part.events.slice(1, -1)).to.deep.equal(wanted)
    const moments = wanted.map(event => Date.parse(momentOf(event)))
    const span = Math.max(...moments) - Math.min(...moments)
    expect(performance.now() - startedAt).to.be.at.least(span / 4)
    console.log(`      ${wanted.length} events in ${span} ms at 4 times`)
  })
})
