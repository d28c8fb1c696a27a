/**
 * What still answers when a server is gone, with which code the rest refuses, and that all of it comes back.
 */
import { expect } from 'chai'
import { start as startApi } from '#services/api/main.ts'
import { healthHeadKey } from '#streams/provider-health/table.ts'
import { readStoredViews, tableOf, type Version } from '#streams/runner/table-versions.ts'
import { type ApiScenario, openApiScenario } from '#test/fixtures/api-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { writeRoomyTiers } from '#test/harness/roomy-tiers.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { layWire, type Wire } from '#test/harness/wire-proxy.ts'

/** Beyond the tries that the Redis client makes by itself. */
const REDIS_TRIES = 24

describe('outages', () => {
  const platform = useServers()
  const wires: Record<'redis' | 'clickhouse' | 'postgres', Wire> = {} as never
  let scenario: ApiScenario
  let roles: StartedRoles

  before('a service whose servers can be cut off', async () => {
    scenario = await openApiScenario(platform, 5)
    const { servers } = platform.config
    wires.redis = await layWire(servers.redis)
    wires.clickhouse = await layWire(servers.clickhouseReadOnly)
    wires.postgres = await layWire(servers.postgres)
    roles = await platform.startRoles([startApi], {
      tiersFile: writeRoomyTiers(platform.config.stateDir),
      servers: {
        ...servers,
        redis: wires.redis.url,
        clickhouseReadOnly: wires.clickhouse.url,
        postgres: wires.postgres.url,
      },
    })
    await roles.ready()
  })
  after('end of the service', async () => {
    await roles.stop()
    await scenario.close()
    for (const wire of Object.values(wires)) await wire.close()
  })

  async function ask(path: string): Promise<[status: number, code: string | undefined]> {
    const answer = await fetch(roles.baseUrl + path, { headers: { authorization: `Bearer ${scenario.keys.quant}` } })
    const body = (await answer.json()) as { code?: string }
    return [answer.status, body.code]
  }
  const becomes = (path: string, status: number, code?: string) =>
    eventually(async () => {
      expect(await ask(path)).to.deep.equal([status, code])
      return true
    }, `${path} to answer ${status}`)
  const isReady = async () => (await fetch(`${roles.operatorUrl}/readyz`)).status === 200
  const item = () => `item_id=${scenario.items.full.item_id}`

  for (const isLong of [false, true])
    it(`of Redis${isLong ? ', longer than its client tries' : ''}: nothing is let through uncounted`, async () => {
      await becomes(`/prices?${item()}`, 200)
      wires.redis.cut()
      await becomes(`/prices?${item()}`, 503, 'PRICES_INDEX_UNAVAILABLE')
      expect(await ask('/prices?limit=5')).to.deep.equal([503, 'PRICES_INDEX_UNAVAILABLE'])
      expect(await ask(`/bids?${item()}`)).to.deep.equal([503, 'BIDS_INDEX_UNAVAILABLE'])
      expect(await ask('/providers')).to.deep.equal([503, 'SERVICE_UNAVAILABLE'])
      for (const path of ['/items?limit=1', `/prices/history?${item()}`, '/fx', '/nothing']) {
        expect(await ask(path), `${path} cannot be counted`).to.deep.equal([503, 'SERVICE_UNAVAILABLE'])
      }
      if (isLong) await eventually(() => wires.redis.refused() >= REDIS_TRIES, 'the client to have given up once')
      wires.redis.heal()
      await becomes(`/prices?${item()}`, 200)
      await becomes('/providers', 200)
      await eventually(isReady, 'readiness')
    })

  it('of ClickHouse: records are unavailable, live prices are not', async () => {
    wires.clickhouse.cut()
    for (const path of [`/prices/candles?${item()}`, `/prices/history?${item()}`, '/sales']) {
      await becomes(path, 503, 'SERVICE_UNAVAILABLE')
    }
    expect(await ask(`/prices?${item()}`)).to.deep.equal([200, undefined])
    wires.clickhouse.heal()
    for (const path of [`/prices/candles?${item()}`, '/sales']) await becomes(path, 200)
  })

  it('of Postgres: no key passes once what is known of it has aged', async () => {
    await becomes('/fx', 200)
    wires.postgres.cut()
    await becomes('/fx', 503, 'SERVICE_UNAVAILABLE')
    const redirect = await fetch(`${roles.baseUrl}/r/provider_01/${scenario.items.full.item_id}`, {
      redirect: 'manual',
    })
    expect(redirect.status, 'the redirect needs no key').to.equal(302)
    wires.postgres.heal()
    await becomes('/fx', 200)
  })

  it('of the exchange rates: dollars go on, all else is unavailable', async () => {
    const tables = platform.openTables()
    await tables.command(`RENAME TABLE ${tables.database}.fx_days TO ${tables.database}.away`)
    await becomes('/fx', 503, 'SERVICE_UNAVAILABLE')
    expect(await ask(`/prices?${item()}&currency=EUR`)).to.deep.equal([503, 'SERVICE_UNAVAILABLE'])
    expect(await ask(`/prices?${item()}&currency=USD`)).to.deep.equal([200, undefined])
    expect(await ask(`/prices?${item()}&currency=eur`)).to.deep.equal([422, 'VALIDATION_ERROR'])
    const { current, named } = (await readStoredViews(tables)).of('fx')
    expect(current).to.equal(undefined)
    await tables.command(
      `RENAME TABLE ${tables.database}.away TO ${tables.database}.${tableOf('fx_days', named as Version)}`,
    )
    await becomes(`/prices?${item()}&currency=EUR`, 200)
    await becomes('/prices?currency=ZZZ', 422, 'VALIDATION_ERROR')
  })

  it('of provider health: unavailable, and not all of them down', async () => {
    // What used to happen: after a wipe of Redis every provider was reported as down, with nothing listed.
    const key = healthHeadKey(platform.namespace)
    await becomes('/providers', 200)
    await scenario.redis.del(key)
    await becomes('/providers', 503, 'SERVICE_UNAVAILABLE')
    const position = { version: 1, topicId: 'topic', next: 7 }
    const lacking = [{ until: 8 }, { fault: 'its topic was deleted' }].map(each => ({ ...position, ...each }))
    for (const each of lacking) {
      await scenario.redis.set(key, JSON.stringify(each))
      await becomes('/providers', 503, 'SERVICE_UNAVAILABLE')
      await scenario.redis.set(key, JSON.stringify(position))
      await becomes('/providers', 200)
    }
  })

  it('none of them ends the process', () => expect(roles.failures).to.deep.equal([]))
})
