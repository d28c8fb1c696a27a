import { expect } from 'chai'
import type { z } from 'zod'
import { loadCatalog } from '#infra/config/catalog.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { RoleContext } from '#infra/runtime/role.ts'
import { moversReply } from '#schemas/api/movers.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '#schemas/values/instant.ts'
import { start as startApi } from '#services/api/main.ts'
import { MOVERS_AGE_LIMIT_MS } from '#streams/movers/reader.ts'
import { MOVERS, type MoversWindow } from '#streams/movers/table.ts'
import { type ComputedHead, computedHeadKey } from '#streams/runner/computed-versions.ts'
import { PROVIDERS, publishMarket, startBelowMarket } from '#test/fixtures/real-market.ts'
import { openTestIngest } from '#test/fixtures/test-ingest.ts'
import { eventually } from '#test/harness/eventually.ts'
import { keysOfTiers, openScenario, type Scenario } from '#test/harness/scenario.ts'
import type { SpawnedRole } from '#test/harness/spawn-role.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { dollars, percentOf } from '#test/oracles/exact-amounts.ts'
import type { MarketModel } from '#test/oracles/market-model.ts'

type Reply = z.infer<typeof moversReply>

/** How the answer is chosen. */
interface Filters {
  window?: MoversWindow
  direction?: 'up' | 'down' | 'both'
  limit?: number
  min_price_usd?: number
  min_providers?: number
  item_type?: string
}

const NO_FILTERS = { limit: 200, min_price_usd: 0, min_providers: 0 } as const

describe('movers on real refreshes', () => {
  const platform = useServers({ catalog: 'whole' })
  const items = new Map(loadCatalog().map(item => [item.item_id, item]))
  let scenario: Scenario
  let redis: Redis
  let model: MarketModel
  let role: SpawnedRole
  let publishedAt: number
  /** By the API's clock, which stands before any snapshot until a test says otherwise. */
  let now = Date.now()
  let environment: Record<string, string>
  let providersFile: string
  let candles: StartedRoles

  before('the market behind the service', async () => {
    ;({ providersFile, candles } = await startBelowMarket(platform))
    environment = { MARKETLOG_PROVIDERS: providersFile }
    redis = await platform.openRedis()
    role = await platform.spawnRole('movers', environment)
    await role.baseUrl()
    const keys = await keysOfTiers(platform)
    const roles = [(context: RoleContext) => startApi(context, () => now)]
    scenario = await openScenario(platform, { roles, config: { providersFile }, keys })
    const { status, body } = await scenario.ask('/v1/market/movers')
    expect([status, body.code], 'while nothing is listed').to.deep.equal([503, 'SERVICE_UNAVAILABLE'])
    // A past that was read half way through the publication would stay until its window moves on: these refreshes are days late.
    await role.stop()
    publishedAt = Date.now()
    model = await publishMarket(platform, publishedAt)
    role = await platform.spawnRole('movers', environment)
    await eventually(async () => (await asOf()) > publishedAt, 'movers of the whole market')
  })
  after(() => scenario?.close())

  const head = async (): Promise<ComputedHead> =>
    JSON.parse((await redis.get(computedHeadKey(MOVERS, platform.namespace))) ?? '{}')
  const asOf = async (): Promise<number> => (await head()).as_of ?? 0

  async function read(filters: Filters = {}): Promise<Reply> {
    const query = new URLSearchParams(filters as Record<string, string>)
    const { status, body, text } = await scenario.ask(`/v1/market/movers?${query}`)
    expect(status, text.slice(0, 300)).to.equal(200)
    return moversReply.parse(body)
  }

  /** The answer by the letter of DECISIONS.md, "Movers", and how many listed items were not listed at the start. */
  function expected(moment: number, filters: Filters) {
    const { window = '24h', direction = 'both', limit = 50, min_price_usd = 1, min_providers = 2, item_type } = filters
    const [ms, bucket] = {
      '1h': [HOUR_MS, 5 * MINUTE_MS],
      '24h': [DAY_MS, 5 * MINUTE_MS],
      '7d': [7 * DAY_MS, HOUR_MS],
    }[window] as [number, number]
    const since = Math.floor((moment - ms) / bucket) * bucket
    let withoutPrevious = 0
    const found = model.itemIds.flatMap(itemId => {
      const asks = model.quotesOf('ask', itemId).filter(({ provider }) => provider !== PROVIDERS.lost)
      const before = model.composite(itemId, since - 1)
      if (asks.length === 0) return []
      if (before === null) withoutPrevious += 1
      const ask = Math.min(...asks.map(({ micro }) => micro))
      const item = items.get(itemId)
      if (before === null || ask === before || !item) return []
      return [{ item, ask, before, providers: asks.length, units: model.units(itemId, since - 1, moment) }]
    })
    const size = (of: (typeof found)[number], by: (typeof found)[number]): bigint =>
      BigInt(Math.abs(of.ask - of.before)) * BigInt(by.before)
    const rows = found
      .filter(({ ask, before }) => direction === 'both' || direction === (ask > before ? 'up' : 'down'))
      .filter(({ ask, providers }) => ask >= min_price_usd * 1_000_000 && providers >= min_providers)
      .filter(({ item }) => item_type === undefined || item.item_type?.toLowerCase() === item_type.toLowerCase())
      .sort((a, b) => {
        const difference = size(b, a) - size(a, b)
        return difference === 0n ? a.item.item_id - b.item.item_id : difference > 0n ? 1 : -1
      })
      .slice(0, limit)
      .map(({ item, ask, before, providers, units }) => ({
        item_id: item.item_id,
        market_hash_name: item.market_hash_name,
        phase: item.phase,
        item_type: item.item_type,
        best_ask_usd: dollars(ask),
        previous_best_ask_usd: dollars(before),
        change_usd: dollars(ask - before),
        change_pct: percentOf(ask - before, before),
        provider_count: providers,
        volume: units,
        since: new Date(since).toISOString(),
      }))
    return { rows, withoutPrevious }
  }

  const cases: [what: string, filters: Filters, least: number][] = [
    ['by default those of a day, up and down, of a dollar at least and two providers', {}, 50],
    ['of an hour', { window: '1h', ...NO_FILTERS }, 100],
    ['of a day', { window: '24h', ...NO_FILTERS }, 200],
    ['of a week', { window: '7d', ...NO_FILTERS }, 200],
    ['that rose', { direction: 'up', ...NO_FILTERS }, 100],
    ['that fell', { direction: 'down', ...NO_FILTERS }, 50],
    ['of a hundred dollars and more', { min_price_usd: 100.5, limit: 200 }, 5],
    ['that four providers list', { window: '7d', min_providers: 4, limit: 200 }, 20],
    ['of one class, in any case', { item_type: 'sTICKER', window: '7d', ...NO_FILTERS }, 5],
    ['of a class that there is not, which are none', { item_type: 'Teapot' }, 0],
    ['one alone', { limit: 1 }, 1],
  ]
  for (const [what, filters, least] of cases)
    it(`are, ${what}, those that a brute force finds`, async () => {
      const reply = await read(filters)
      const { rows } = expected(Date.parse(reply.meta.generated_at), filters)
      expect(reply.data).to.deep.equal(rows)
      expect(rows.length).to.be.at.least(least)
      expect(reply.meta).to.deep.include({ data_source: 'cache', window: { timeframe: filters.window ?? '24h' } })
    })

  it('are judged where it matters: items not listed at the start, equal changes, units, and asks of a provider that is down', async () => {
    const { data, meta } = await read({ window: '24h', ...NO_FILTERS })
    const moment = Date.parse(meta.generated_at)
    const { rows, withoutPrevious } = expected(moment, { window: '24h', ...NO_FILTERS, limit: 1e9 })
    const ties = rows.filter((row, i) => row.change_pct === rows[i - 1]?.change_pct)
    const lost = rows.filter(({ item_id, previous_best_ask_usd }) =>
      model
        .quotesOf('ask', item_id, moment - DAY_MS)
        .some(({ provider, micro }) => provider === PROVIDERS.lost && dollars(micro) === previous_best_ask_usd),
    )
    const counts = {
      withoutPrevious,
      ties: ties.length,
      lost: lost.length,
      sold: data.filter(row => row.volume > 0).length,
    }
    for (const [what, count] of Object.entries(counts)) expect(count, what).to.be.above(5)
  })

  it('are as old as what candles hold: they used to be of now though candles had stopped', async () => {
    await candles.stop()
    const ingest = await openTestIngest(platform.connect())
    const entries = [{ market_hash_name: [...items.values()][0]?.market_hash_name ?? '', price: 100, quantity: 1 }]
    await ingest.publish({ provider: 'provider_08', side: 'ask', observedAt: Date.now(), currency: 'USD', entries })
    await ingest.close()
    await platform.drained(['book', 'history', 'live-view', 'provider-health'])
    const drainedAt = Date.now()
    const operator = await role.operatorUrl()
    const readiness = async () => (await fetch(`${operator}/readyz`)).text()
    await eventually(async () => /movers waits for candles/.test(await readiness()), 'the reason why none are computed')
    expect(await asOf()).to.be.below(drainedAt)
    candles = await platform.startRoles(['candles'], { providersFile })
    await eventually(async () => (await asOf()) > drainedAt, 'movers of what candles have read')
    await role.stop()
  })

  it('say how old they are, and are a 503 when that is more than 30 s', async () => {
    const refused = async (): Promise<boolean> => {
      const { status, body } = await scenario.ask('/v1/market/movers')
      return status === 503 && body.code === 'SERVICE_UNAVAILABLE'
    }
    const last = await asOf()
    now = last + MOVERS_AGE_LIMIT_MS
    await eventually(async () => (await read()).meta.freshness_sec === 30, 'the last snapshot')
    now += 1
    expect(await refused(), 'an old snapshot').to.equal(true)
    now = last
    await redis.del(computedHeadKey(MOVERS, platform.namespace))
    await eventually(refused, 'the refusal without a snapshot')
  })
})
