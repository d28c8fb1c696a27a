/**
 * Redis wiped under read load: no wrong answer at any moment, 503 where the view is not there, and all of it back soon.
 *
 * The market is at rest, so that every answer of 200 can be compared with one reference to the last row, and so that no
 * record comes that would make the roles notice the wipe. `FAULT=long` does it with some 1.2 million live rows, three times.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'chai'
import { loadProviders } from '#infra/config/providers.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { LagReader } from '#services/cli/wait-for-views.ts'
import type { Feed } from '#test/fixtures/seeded-market.ts'
import { leastOf, openSeededMarket } from '#test/fixtures/seeded-market.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectFigure } from '#test/harness/figures.ts'
import { expectBalanced } from '#test/harness/ledger.ts'
import { givenOf, ratesRecord, refreshRecords } from '#test/harness/published-records.ts'
import type { Expected, GivenRefresh } from '#test/harness/reference-fold.ts'
import { foldRefreshes } from '#test/harness/reference-fold.ts'
import { writeRoomyTiers } from '#test/harness/roomy-tiers.ts'
import { randomOf, seededRandom } from '#test/harness/seeded-random.ts'
import type { SpawnedRole } from '#test/harness/spawn-role.ts'
import { useServers } from '#test/harness/use-servers.ts'
import type { ExactReaders } from './exact-readers.ts'
import { openExactReaders, WRONG } from './exact-readers.ts'
import { groupsDrained } from './lag.ts'
import { liveLedgers } from './view-ledgers.ts'

const IS_LONG = process.env.FAULT === 'long'
const { askKeys, bidKeys } = loadProviders()
const SIZE = IS_LONG
  ? { items: 30_000, askProviders: askKeys, bidProviders: bidKeys }
  : { items: 1_000, askProviders: askKeys.slice(0, 6), bidProviders: bidKeys.slice(0, 3) }
const WIPES = Number(process.env.WIPES ?? (IS_LONG ? 3 : 1))
/** Some 8,000 rows, or 1.2 million in the long run. */
const REBUILT_WITHIN_MS = IS_LONG ? 60_000 : 15_000
const READ_FOR_MS = IS_LONG ? 10_000 : 1_500
const AWAY_MS = 10_000
const LOAD_LIMIT_MS = 600_000
const RECORDS_PER_SEND = 10_000

describe('Redis wiped under read load', function () {
  this.timeout(IS_LONG ? 1_800_000 : 240_000)
  const platform = useServers({ catalog: 'whole', own: { redis: {} } })
  const random = seededRandom('Redis wiped')
  const newRandom = () => randomOf(random.integer(0, 2 ** 31))
  let kafka: KafkaConnection
  let publisher: Publisher
  let look: LagReader
  let redis: Redis
  let expected: Expected
  let readers: ExactReaders
  let baseUrl: string
  let key: string
  const roles: SpawnedRole[] = []
  let feeds: Feed[]
  /** All that was published, in the order of the log. */
  const given: GivenRefresh[] = []

  before('a market at rest behind the API', async function () {
    this.timeout(LOAD_LIMIT_MS)
    const { config } = platform
    kafka = platform.connect()
    publisher = await platform.openPublisher(kafka, 'ingest')
    look = await platform.openLagReader()
    redis = await platform.openRedis()
    roles.push(await platform.spawnRole('book'), await platform.spawnRole('live-view fx provider-health'))
    roles.push(await platform.spawnRole('api', { MARKETLOG_TIERS: writeRoomyTiers(config.stateDir) }))
    key = await platform.newKey()
    await publisher.send([ratesRecord(kafka.codec, Date.now(), { EUR: '0.9' })])
    feeds = openSeededMarket(newRandom(), SIZE)
    given.push(...(await publishOnce()))
    expected = foldRefreshes(given)
    baseUrl = (await roles[2]?.baseUrl()) ?? ''
    await groupsDrained(look, ['book', 'live-view', 'fx', 'provider-health'], LOAD_LIMIT_MS)
    readers = openExactReaders({ baseUrl, key, random: newRandom(), books: expected.books })
    await eventually(isWhole, 'every read to be answered rightly', LOAD_LIMIT_MS)
    // One provider's snapshot says nothing of the others', and the last one's comes last.
    const areWhole = async (): Promise<boolean> => (await readers.wholeBulks()).length === 0
    await eventually(areWhole, 'all snapshots to follow the table', LOAD_LIMIT_MS)
    readers.begin()
  })
  after(async () => {
    await readers?.stop()
  })

  /** One sound refresh of every feed. */
  async function publishOnce(): Promise<GivenRefresh[]> {
    const given: GivenRefresh[] = []
    for (const feed of feeds) {
      const refresh = feed.last()
      const records = refreshRecords(kafka.codec, refresh)
      for (let from = 0; from < records.length; from += RECORDS_PER_SEND)
        await publisher.send(records.slice(from, from + RECORDS_PER_SEND))
      given.push(givenOf(refresh))
    }
    return given
  }

  const isWhole = async (): Promise<boolean> => {
    expect([...(await readers.rows()), ...(await readers.bulks())]).to.deep.equal([])
    return true
  }
  const statusOf = async (path: string): Promise<number> => {
    const answer = await fetch(baseUrl + path, { headers: { authorization: `Bearer ${key}` } })
    await answer.body?.cancel()
    return answer.status
  }
  /** How long it takes until something holds for the first time. */
  const timeUntil = async (what: string, holds: () => Promise<boolean>): Promise<string> => {
    const startedAt = performance.now()
    await eventually(holds, what, 2 * REBUILT_WITHIN_MS)
    const tookMs = performance.now() - startedAt
    const limit = { atMost: REBUILT_WITHIN_MS / 1_000 }
    expectFigure({ test: 'Redis wiped', what: `until ${what} were back`, value: tookMs / 1_000, unit: 's', limit })
    return `${what} ${(tookMs / 1000).toFixed(1)} s`
  }

  for (let wipe = 1; wipe <= WIPES; wipe++)
    it(`answers rightly or not at all, and is whole again in time (${wipe})`, async () => {
      const rows = [...expected.books.values()].reduce((sum, book) => sum + book.size, 0)
      await pause(READ_FOR_MS)
      const wrong: string[] = []
      const isRight = (problems: readonly string[]): boolean => {
        wrong.push(...problems.filter(problem => problem.startsWith(WRONG)))
        return problems.length === 0
      }
      const refused = countOf(readers, '503')
      await redis.flushall()
      const back = await Promise.all([
        timeUntil('rows', async () => isRight(await readers.rows())),
        timeUntil('bulk snapshots', async () => isRight(await readers.bulks())),
        timeUntil('rates', async () => (await statusOf('/v1/fx')) === 200),
        timeUntil('providers', async () => (await statusOf('/v1/providers')) === 200),
      ])
      await pause(READ_FOR_MS)
      console.log(`      ${rows} rows wiped; back: ${back.join(', ')}`)
      expect([...wrong, ...readers.faults]).to.deep.equal([])
      expect(countOf(readers, '503'), 'refusals while the view was not there').to.be.above(refused)
    })

  it('comes back to its writers too, when it was away for longer than their client tries', async () => {
    // What used to happen: the client gave up after eight seconds, and the views stopped for ten minutes.
    await platform.own('redis').kill()
    await pause(AWAY_MS)
    await platform.own('redis').start()
    await eventually(isWhole, 'every read to be answered rightly', REBUILT_WITHIN_MS)
    await readers.stop()
    given.push(...(await publishOnce()))
    expected = foldRefreshes(given)
    await groupsDrained(look, ['book', 'live-view', 'provider-health'], LOAD_LIMIT_MS)
  })

  it('holds in the end what it should, row by row, and was never wrong', async () => {
    console.log(`      ${[...readers.counts].map(([what, count]) => `${what}: ${count}`).join(', ')}`)
    expect(readers.faults).to.deep.equal([])
    const isAnswer = (what: string): boolean => !what.endsWith(' cut')
    // The lease of a stream that was cut while Redis was away is held until it expires.
    const isHeld = (what: string): boolean => what === 'bulk 409' && readers.counts.has('bulk cut')
    const answers = [...readers.counts.keys()].filter(what => isAnswer(what) && !isHeld(what))
    expect([...new Set(answers.map(what => what.split(' ')[1]))].sort()).to.deep.equal(['200', '503'])
    expectBalanced(await liveLedgers(redis, platform.namespace, expected, leastOf(feeds)))
    for (const role of roles) expect(role.lines().filter(line => line.includes('"level":"fatal"'))).to.deep.equal([])
  })
})

const countOf = ({ counts }: ExactReaders, status: string): number =>
  [...counts].reduce((sum, [what, count]) => (what.endsWith(` ${status}`) ? sum + count : sum), 0)
