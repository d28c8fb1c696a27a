/** What still answers when Redis, or what a view holds, is gone, with which code the rest refuses; of other servers see outages.test.ts. */
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
  let wire: Wire
  let scenario: ApiScenario
  let roles: StartedRoles

  before('a service whose Redis can be cut off', async () => {
    scenario = await openApiScenario(platform, 5)
    const { servers } = platform.config
    wire = await layWire(servers.redis)
    roles = await platform.startRoles([startApi], {
      tiersFile: writeRoomyTiers(platform.config.stateDir),
      servers: { ...servers, redis: wire.url },
    })
    await roles.ready()
  })
  after('end of the service', async () => {
    await roles.stop()
    await scenario.close()
    await wire.close()
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
      wire.cut()
      await becomes(`/prices?${item()}`, 503, 'PRICES_INDEX_UNAVAILABLE')
      expect(await ask('/prices?limit=5')).to.deep.equal([503, 'PRICES_INDEX_UNAVAILABLE'])
      expect(await ask(`/bids?${item()}`)).to.deep.equal([503, 'BIDS_INDEX_UNAVAILABLE'])
      expect(await ask('/providers')).to.deep.equal([503, 'SERVICE_UNAVAILABLE'])
      for (const path of ['/items?limit=1', `/prices/history?${item()}`, '/fx', '/nothing']) {
        expect(await ask(path), `${path} cannot be counted`).to.deep.equal([503, 'SERVICE_UNAVAILABLE'])
      }
      if (isLong) await eventually(() => wire.refused() >= REDIS_TRIES, 'the client to have given up once')
      wire.heal()
      await becomes(`/prices?${item()}`, 200)
      await becomes('/providers', 200)
      await eventually(isReady, 'readiness')
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
