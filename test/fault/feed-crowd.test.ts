/**
 * Many clients that lose their gateway at once and come back at another one, on a moving market.
 *
 * All of them share one connection to the log there: its sockets are counted in /proc. Where more come than may replay
 * history at once, the rest are asked to retry later, and all receive everything in the end.
 */
import { expect } from 'chai'
import type { Publisher } from '#infra/kafka/publisher.ts'
import { startWithin } from '#services/feed/main.ts'
import { firstItems, type MovingMarket, openMovingMarket } from '#test/fixtures/moving-market.ts'
import { eventually } from '#test/harness/eventually.ts'
import { watchConnections } from '#test/harness/open-sockets.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import { openSse, type SseClient, type SseEvent } from '#test/harness/sse-client.ts'
import { useServers } from '#test/harness/use-servers.ts'

const CLIENTS = process.env.FAULT === 'long' ? 1_000 : 100
const KILLS = process.env.FAULT === 'long' ? 10 : 2
/** What the bound lets in at once, and how many come. */
const [SEATS, CROWD] = [3, 40]
/** One to each broker and one that asks for leaders; the reader of what is live holds as many, and opens none for a client. */
const CONNECTIONS_MORE = 2

interface Client {
  key: string
  path: string
  pieces: SseClient[]
}

describe('a crowd of clients that resume', function () {
  this.timeout(process.env.FAULT === 'long' ? 1_800_000 : 180_000)
  const platform = useServers({ catalog: 'whole' })
  let publisher: Publisher
  let openMarket: () => MovingMarket
  let market: MovingMarket
  const clients: Client[] = []

  before(async () => {
    const kafka = platform.connect()
    publisher = await platform.openPublisher(kafka, 'book')
    const items = await firstItems(kafka, 600)
    openMarket = () => openMovingMarket({ publisher, codec: kafka.codec, random: seededRandom('a crowd'), items })
  })
  // Its clients connect before it moves: what they receive begins with it.
  beforeEach(() => {
    market = openMarket()
  })
  afterEach(() => {
    for (const { pieces } of clients.splice(0)) for (const piece of pieces) piece.close()
  })

  async function newClient(): Promise<Client> {
    const { random } = market
    const filter = random.chance(0.3) ? '' : `&${market.someFilter()}`
    const key = await platform.newKey()
    const client = { key, path: `/feed/${random.chance(0.7) ? 'prices' : 'bids'}?resume=true${filter}`, pieces: [] }
    clients.push(client)
    return client
  }
  const idOf = ({ pieces }: Client) =>
    pieces.flatMap(({ events }) => events.map(({ id }) => id)).findLast(id => id !== undefined)

  /** Lets a client go on where it left off; returns the refusals that it met. */
  async function connect(client: Client, base: string): Promise<SseClient[]> {
    const id = idOf(client)
    const headers: Record<string, string> = id === undefined ? {} : { 'last-event-id': id }
    const refused: SseClient[] = []
    const isOpen = async () => {
      const answer = await openSse(base + client.path, { key: client.key, headers })
      if (answer.status !== 200) refused.push(answer)
      else client.pieces.push(answer)
      return answer.status === 200
    }
    await eventually(isOpen, 'a stream')
    return refused
  }
  /** The first event of a client's stream: an id to come back with. */
  const hasBegun = ({ pieces }: Client) => pieces.at(-1)?.event(({ event }) => event === 'ready')

  const eventsOf = ({ pieces }: Client): SseEvent[] =>
    pieces.flatMap(piece => market.upToLastId(piece, piece === pieces.at(-1)))

  async function expectAllDelivered(): Promise<void> {
    for (const client of clients) {
      const isUpToDate = () => market.isUpToDate({ events: eventsOf(client) }, client.path)
      await eventually(isUpToDate, `the state of the market at ${client.path}`)
      const events = eventsOf(client)
      market.expectChain(events, { from: 'nothing' })
      expect(events.map(({ event }) => event)).not.to.include('resync')
    }
  }

  it('resumes at another gateway after SIGKILL, nothing lost and nothing twice, by one connection to the log', async () => {
    let gateway = await platform.spawnRole('feed')
    let base = await gateway.baseUrl()
    for (let at = 0; at < CLIENTS; at++) await newClient()
    await Promise.all(clients.map(client => connect(client, base)))
    await Promise.all(clients.map(hasBegun))
    for (let kill = 0; kill < KILLS; kill++) {
      await market.refreshes(5)
      const next = await platform.spawnRole('feed')
      base = await next.baseUrl()
      const moving = market.refreshes(20)
      await eventually(() => clients.some(({ pieces }) => (pieces.at(-1)?.events.length ?? 0) > 3), 'events')
      gateway.kill('SIGKILL')
      await gateway.ended
      const lost = () => clients.every(({ pieces }) => pieces.at(-1)?.hasEnded())
      await eventually(lost, 'the end of all streams')
      const watch = watchConnections(next.pid, platform.config.servers.kafka)
      const before = watch.seen()
      await Promise.all(clients.map(client => connect(client, base)))
      await moving
      await market.refreshes(3)
      await Promise.all(clients.map(hasBegun))
      await expectAllDelivered()
      watch.stop()
      expect(before, 'connections of a gateway').to.be.at.least(1)
      expect(watch.seen() - before, 'connections that the clients cost').to.be.at.most(CONNECTIONS_MORE)
      console.log(`      ${CLIENTS} clients, ${before} connections before they came, ${watch.seen()} in all`)
      gateway = next
    }
  })

  it('has those beyond the bound asked to retry, each at a time of its own, and serves them in the end', async () => {
    const roles = await platform.startRoles([
      context => startWithin({ catchUps: SEATS, replays: 1, replaySeats: 1 }, context),
    ])
    await roles.ready()
    for (let at = 0; at < CROWD; at++) {
      const client = await newClient()
      await connect(client, roles.baseUrl)
      await hasBegun(client)
    }
    for (const { pieces } of clients) pieces.at(-1)?.close()
    await market.refreshes(5)
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

  it('gets as many replays as a gateway may have open, one an account, and those that wait for their time hold up no other', async () => {
    const limits = { catchUps: 1, replays: 3, replaySeats: 1 }
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
      // Used to keep the only seat of both while they waited for their time: 503 for all that follows.
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
})
