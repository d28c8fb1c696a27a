/** Random parameters are judged by the schemas, which the feed parses with, and by a reading of the rules as they were given. */
import { expect } from 'chai'
import fc from 'fast-check'
import type { ZodType } from 'zod'
import { loadProviders } from '#infra/config/providers.ts'
import { asyncApiDocument } from '#schemas/api/asyncapi.ts'
import { feedOperations } from '#schemas/api/feed-operations.ts'
import { feedQuery, replayQuery, salesFeedQuery } from '#schemas/api/feed-query.ts'
import type { Operation } from '#schemas/api/operation.ts'
import { parseInstant } from '#schemas/values/instant.ts'
import { PINNED } from '#test/fixtures/pinned-operations.ts'
import { openDescribedAnswers } from '#test/harness/described-answers.ts'
import { request } from '#test/harness/scenario.ts'
import { openSse, type SseClient } from '#test/harness/sse-client.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'

const RUNS = 2_000
const registry = loadProviders()
const OPERATIONS: Operation[] = Object.values(feedOperations(registry.askKeys))
const STREAMS = OPERATIONS.filter(({ reply }) => reply.events)
const feeds = asyncApiDocument({ baseUrl: 'https://api.example.com' }) as {
  channels: Record<string, { address: string; messages: object }>
}

type Parameters = [name: string, value: string][]

const oneOf = (...values: string[]) => fc.constantFrom(...values)
const VALUES: Record<string, fc.Arbitrary<string>> = {
  providers: fc.oneof({ weight: 9, arbitrary: oneOf('provider_01', 'provider_41') }, oneOf('', 'provider_42', '1')),
  item_ids: fc.oneof({ weight: 9, arbitrary: oneOf('4940', '+7', '-1', '0') }, oneOf('', 'x', '1.5', '9'.repeat(16))),
  market_hash_names: fc.oneof({ weight: 9, arbitrary: oneOf('AK-47 | Redline', '★', ' ') }, oneOf('', 'a\0')),
  resume: oneOf('true', 'True', 'FALSE', 'false', '1', 'no', '', 'maybe'),
  snapshot: oneOf('true', 'TRUE', 'false', '0', 'f', '', 'null'),
  policy: fc.oneof({ weight: 9, arbitrary: oneOf('conflate') }, oneOf('', 'drop', 'CONFLATE')),
  last_event_id: oneOf('', 'any text'),
  lastEventId: oneOf('', 'any text'),
  from: oneOf('2026-03-03', '2026-03-03T10:00:00', '2026-03-03T10:00:00.5Z', '', 'yesterday', '2026-02-30'),
  to: oneOf('2026-03-04', '2026-03-04T10:00:00+02:00', '', '4'),
  speed: oneOf('0', '1', '10x', '0.5x', '10000', '10000.001', '99999', 'x', '-1', '1e3', ''),
}
const parametersOf = (names: readonly string[]): fc.Arbitrary<Parameters> => {
  const one = fc
    .constantFrom(...names)
    .chain(name => (VALUES[name] as fc.Arbitrary<string>).map(value => [name, value]))
  const some = fc.array(one, { maxLength: 5 }) as fc.Arbitrary<Parameters>
  const many = fc.integer({ min: 95, max: 105 }).map((count): Parameters => Array(count).fill(['item_ids', '1']))
  return fc.oneof(
    { weight: 9, arbitrary: some },
    fc.tuple(some, many).map(([few, more]) => [...few, ...more]),
  )
}
/** As the API's routes hand a query to a schema: a text, or an array of them when it was repeated. */
const valuesOf = (given: Parameters): Record<string, string | string[]> =>
  Object.fromEntries(
    [...Map.groupBy(given, ([name]) => name)].map(([name, all]) => {
      const values = all.map(([, value]) => value)
      return [name, values.length === 1 ? (values[0] as string) : values]
    }),
  )

/** What the specification says of filters, read from the parameters as they were given. */
function fitsFilters(given: Parameters): boolean {
  const filters = given.filter(([name]) => name === 'item_ids' || name === 'market_hash_names')
  return (
    filters.length <= 100 &&
    given.every(([name, value]) => {
      if (name === 'providers') return registry.askKeys.includes(value)
      if (name === 'item_ids') return /^[+-]?\d{1,15}$/.test(value)
      return name !== 'market_hash_names' || (value !== '' && !value.includes('\0'))
    })
  )
}

/** The one value of a parameter that may be given once; null when it came twice. */
function onceOf(given: Parameters, name: string): string | undefined | null {
  const values = given.filter(([other]) => other === name).map(([, value]) => value)
  return values.length > 1 ? null : values[0]
}

const isFlag = (text: string | undefined | null): boolean =>
  text === undefined || (text !== null && /^(true|false)$/i.test(text))

function fitsLive(given: Parameters): boolean {
  const [resume, snapshot, policy] = ['resume', 'snapshot', 'policy'].map(name => onceOf(given, name))
  const ids = ['last_event_id', 'lastEventId'].map(name => onceOf(given, name))
  if (!fitsFilters(given) || !isFlag(resume) || !isFlag(snapshot) || ids.includes(null)) return false
  return policy === undefined || (policy === 'conflate' && resume?.toLowerCase() !== 'true')
}

function fitsReplay(given: Parameters): boolean {
  const [from, to, speed] = ['from', 'to', 'speed'].map(name => onceOf(given, name))
  const isTime = (text: string | undefined | null) => typeof text === 'string' && parseInstant(text) !== undefined
  const pace = /^(\d{1,5}(?:\.\d{1,3})?)x?$/.exec(speed ?? '')
  const isPace = speed === undefined || (pace !== null && Number(pace[1]) <= 10_000)
  return fitsFilters(given) && isTime(from) && (to === undefined || isTime(to)) && isPace
}

describe('the feeds in the description of the API', () => {
  const LIVE = [
    'providers',
    'item_ids',
    'market_hash_names',
    'resume',
    'snapshot',
    'policy',
    'last_event_id',
    'lastEventId',
  ]

  /** Judges parameters of a seed, which hold enough of both kinds, and random ones. */
  function expectJudged(schema: ZodType, names: readonly string[], fits: (given: Parameters) => boolean): void {
    const judge = (options: { seed?: number }) => {
      const counted = { taken: 0, refused: 0 }
      fc.assert(
        fc.property(parametersOf(names), given => {
          const isTaken = fits(given)
          counted[isTaken ? 'taken' : 'refused'] += 1
          expect(schema.safeParse(valuesOf(given)).success, JSON.stringify(given)).to.equal(isTaken)
        }),
        { numRuns: RUNS, ...options },
      )
      return counted
    }
    const { taken, refused } = judge({ seed: 1 })
    expect(Math.min(taken, refused)).to.be.above(RUNS / 20)
    judge({})
  }

  it('take and refuse exactly the parameters of a live feed that the specification does', () =>
    expectJudged(feedQuery(registry.askKeys), LIVE, fitsLive))

  it('take the parameters of a feed of sales, which has no state to begin with, and ignore the others', () =>
    expectJudged(salesFeedQuery(registry.askKeys), LIVE, given =>
      fitsLive(given.filter(([name]) => name !== 'snapshot' && name !== 'policy')),
    ))

  it('take and refuse exactly the parameters of a replay that the specification does', () =>
    expectJudged(replayQuery(registry.askKeys), ['from', 'from', 'from', 'to', 'speed', 'providers'], fitsReplay))

  for (const { path, reply } of STREAMS)
    it(`show and name the events of ${path} as /asyncapi.json does`, () => {
      const events = reply.events ?? {}
      const channel = Object.values(feeds.channels).find(({ address }) => address === `/v1${path}`)
      expect(Object.keys(events).sort()).to.deep.equal(Object.keys(channel?.messages ?? {}).sort())
      const shown = Object.entries(reply.example ?? {})
      expect(shown.length).to.be.above(1)
      for (const [name, data] of shown) expect(events[name]?.schema.safeParse(data).success, name).to.equal(true)
    })
})

describe('the feeds, served as described', () => {
  const platform = useServers()
  let roles: StartedRoles
  const clients: SseClient[] = []
  const check = openDescribedAnswers(PINNED)

  before(async () => {
    roles = await platform.startRoles(['feed'])
    await roles.ready()
  })
  after(async () => {
    for (const client of clients) client.close()
  })

  for (const { path } of STREAMS)
    it(`GET ${path} refuses a third connection as described`, async () => {
      const key = await platform.newKey('quant')
      for (let held = 0; held < 2; held++) {
        const client = await openSse(`${roles.baseUrl}/feed/prices`, { key })
        clients.push(client)
        await client.event(({ event }) => event === 'ready')
      }
      const third = await request(roles.baseUrl, check, `/v1${path}?from=2026-03-03`, { as: key })
      expect([third.status, third.body.code]).to.deep.equal([429, 'RATE_LIMIT_FEED_CONNECTIONS_EXCEEDED'])
    })
})
