import { expect } from 'chai'
import { inventoryReply } from '#schemas/api/inventory.ts'
import { entriesReply } from '#schemas/api/portfolios.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import { linkPlatformAccount } from '#services/accounts/sign-in/commands.ts'
import type { PlatformAsset } from '#services/inventory/asset.ts'
import { STAND_IN } from '#services/inventory/main.ts'
import { type InventoryAnswer, openHttpSource, openInventories, PlatformFailure } from '#services/inventory/reader.ts'
import { type ApiScenario, openApiScenario } from '#test/fixtures/api-scenario.ts'
import { type LoopbackPlatform, openLoopbackPlatform, WRONG } from '#test/fixtures/platform-stand-in.ts'
import { useServers } from '#test/harness/use-servers.ts'

const NEVER = new AbortController().signal
const UNKNOWN = '76561190000000999'

describe('the platform over HTTP', () => {
  let platform: LoopbackPlatform
  before(async () => {
    platform = await openLoopbackPlatform()
  })
  after(() => platform.close())
  const source = () => openHttpSource({ baseUrl: platform.url, signal: NEVER, firstPauseMs: 5 })

  const failureOf = (read: Promise<InventoryAnswer>): Promise<PlatformFailure> =>
    read.then(
      answer => expect.fail(JSON.stringify(answer).slice(0, 200)),
      error => (error instanceof PlatformFailure ? error : expect.fail(String(error))),
    )

  it('is read page by page to the end', async () => {
    const from = platform.requests.length
    const assets = (await source().read(STAND_IN.full)) as PlatformAsset[]
    expect(new Set(assets.map(({ assetid }) => assetid))).to.have.length(60)
    expect(assets).to.have.length(60)
    const pages = platform.requests.slice(from)
    expect(pages).to.have.length(3)
    expect(pages[1]).to.include(`start_assetid=${assets[24]?.assetid}`)
  })

  it('is asked again while it is busy, and given up when it stays broken', async () => {
    expect(await source().read(STAND_IN.busy)).to.be.an('array')
    const from = platform.requests.length
    expect(await failureOf(source().read(STAND_IN.broken))).to.include({ isBusy: false })
    expect(platform.requests.length - from).to.equal(4)
  })

  for (const [account, { what }] of Object.entries(WRONG))
    it(`has failed when it answers with ${what}`, async () => void (await failureOf(source().read(account))))

  it('has failed when the connection breaks', async () => void (await failureOf(source().read('76561190000000109'))))
})

describe('kept inventories', () => {
  const assets = (count: number) => Array.from({ length: count }, () => ({}) as PlatformAsset)
  function openCounted(answer: () => InventoryAnswer) {
    const asked: string[] = []
    let now = 0
    let atOnce = 0
    let most = 0
    const inventories = openInventories(
      {
        async read(account) {
          asked.push(account)
          atOnce += 1
          most = Math.max(most, atOnce)
          await new Promise(setImmediate)
          atOnce -= 1
          return answer()
        },
        async resolve(name) {
          asked.push(name)
          return name === 'none' ? undefined : STAND_IN.full
        },
      },
      () => now,
    )
    const pass = (ms: number): void => {
      now += ms
    }
    return { inventories, asked, pass, most: () => most }
  }
  const account = (i: number) => String(76561190000001000n + BigInt(i))

  it('are read once in a minute, however many ask at the same time', async () => {
    const { inventories, asked, pass } = openCounted(() => assets(3))
    await Promise.all(Array.from({ length: 20 }, () => inventories.of(account(1))))
    pass(59_999)
    await inventories.of(account(1))
    expect(asked).to.deep.equal([account(1)])
    pass(1)
    await inventories.of(account(1))
    expect(asked).to.have.length(2)
  })

  it('are kept under the id that a name stands for, and an unknown name is kept too', async () => {
    const { inventories, asked } = openCounted(() => [])
    for (const name of ['demo', 'demo', STAND_IN.full, 'none', 'none']) await inventories.of(name)
    expect(asked).to.deep.equal(['demo', STAND_IN.full, 'none'])
  })

  it('are not kept when they could not be read', async () => {
    const { inventories, asked } = openCounted(() => {
      throw new PlatformFailure('down')
    })
    for (let i = 0; i < 2; i++) await inventories.of(account(1)).catch(() => undefined)
    expect(asked).to.have.length(2)
  })

  it('are kept up to 200,000 items, the newest ones', async () => {
    const { inventories, asked } = openCounted(() => assets(50_000))
    for (const i of [1, 2, 3, 4, 5, 5, 1]) await inventories.of(account(i))
    expect(asked).to.deep.equal([1, 2, 3, 4, 5, 1].map(account))
  })

  it('are read a few at a time, and a request that comes when too many wait is refused', async () => {
    const { inventories, most } = openCounted(() => [])
    const answers = await Promise.allSettled(Array.from({ length: 150 }, (_, i) => inventories.of(account(i))))
    expect(most()).to.equal(4)
    const refused = answers.flatMap(answer => (answer.status === 'rejected' ? [answer.reason] : []))
    expect(refused).to.have.length(46)
    for (const reason of refused) expect(reason).to.be.instanceOf(PlatformFailure).and.include({ isBusy: true })
  })
})

describe('inventories through the API', () => {
  const servers = useServers()
  let platform: LoopbackPlatform
  let scenario: ApiScenario
  let linked: string
  before('a platform and a linked account', async () => {
    platform = await openLoopbackPlatform()
    scenario = await openApiScenario(servers, 5, { inventoryUrl: platform.url })
    linked = await newAccount(STAND_IN.full)
  })
  after('end of both', async () => {
    await scenario.close()
    await platform.close()
  })
  async function newAccount(platformId?: string): Promise<string> {
    const { key, account_id } = await createAccountWithKey(scenario.database, { tier: 'pro' })
    if (platformId) await linkPlatformAccount(scenario.database, account_id, platformId)
    return key
  }
  const post = (path: string, as: string, body?: object, headers: Record<string, string> = {}) =>
    scenario.ask(path, { as, method: 'POST', headers, ...(body && { body }) })
  const newPortfolio = async (as: string): Promise<string> =>
    (await post('/v1/portfolio', as, { name: 'imported' })).body.id

  it('show the linked account, with phases by their finish', async () => {
    const { status, body } = await scenario.ask('/v1/inventory/gamestore', { as: linked })
    expect(status).to.equal(200)
    const { data, total_count } = inventoryReply.parse(body)
    expect(total_count).to.equal(60)
    const phased = scenario.catalog.filter(item => item.phase !== null && item.paint_index !== null)
    const wanted = [0, 1, 2, 3, 4].map(i => phased[Math.floor((i * phased.length) / 5)])
    expect(data.slice(0, 5).map(one => [one.market_hash_name, one.phase])).to.deep.equal(
      wanted.map(item => [item?.market_hash_name, item?.phase]),
    )
    expect(data.at(-1)).to.include({ market_hash_name: '2021 Service Medal', phase: null, marketable: false })
  })

  it('can be looked up by id and by vanity name, also without a linked account', async () => {
    const key = await newAccount()
    const byId = await scenario.ask(`/v1/inventory/gamestore/lookup?gamestore_id=${STAND_IN.full}`, { as: key })
    const byName = await scenario.ask(`/v1/inventory/gamestore/lookup?gamestore_id=${STAND_IN.vanity}`, { as: key })
    expect(byId.body.total_count).to.equal(60)
    expect(byName.body).to.deep.equal(byId.body)
  })

  const refusals: [string, string, number, string][] = [
    ['a private one', STAND_IN.private, 403, 'FORBIDDEN'],
    ['an unknown account', UNKNOWN, 404, 'NOT_FOUND'],
    ['an unknown name', 'nobody-there', 404, 'NOT_FOUND'],
    ['a broken platform', '76561190000000101', 502, 'UPSTREAM_ERROR'],
    ['what is neither id nor name', 'a/../b', 422, 'VALIDATION_ERROR'],
  ]
  for (const [what, id, status, code] of refusals)
    it(`report ${what} by its own code`, async () => {
      const answer = await scenario.ask(`/v1/inventory/gamestore/lookup?gamestore_id=${encodeURIComponent(id)}`, {
        as: linked,
      })
      expect([answer.status, answer.body.code]).to.deep.equal([status, code])
    })

  it('are empty when there is nothing, and a 403 without a linked account', async () => {
    const empty = await scenario.ask('/v1/inventory/gamestore', { as: await newAccount(STAND_IN.empty) })
    expect(empty.body).to.deep.equal({ data: [], total_count: 0 })
    const key = await newAccount()
    for (const answer of [
      await scenario.ask('/v1/inventory/gamestore', { as: key }),
      await post(`/v1/portfolio/${await newPortfolio(key)}/import`, key),
    ]) {
      expect([answer.status, answer.body.code]).to.deep.equal([403, 'PLATFORM_ACCOUNT_NOT_LINKED'])
    }
  })

  it('are imported whole; what is there already is skipped, what no item matches is reported', async () => {
    const id = await newPortfolio(linked)
    const first = await post(`/v1/portfolio/${id}/import`, linked)
    const inventory = (await scenario.ask('/v1/inventory/gamestore', { as: linked })).body.data
    const medal = inventory.at(-1)
    const unresolved = [medal.market_hash_name]
    expect([first.status, first.body]).to.deep.equal([200, { imported: 59, skipped: 0, unresolved }])
    expect((await post(`/v1/portfolio/${id}/import`, linked)).body).to.deep.equal({
      imported: 0,
      skipped: 59,
      unresolved,
    })
    const entries = entriesReply.parse((await scenario.ask(`/v1/portfolio/${id}/items`, { as: linked })).body)
    expect(entries).to.have.length(59)
    const valuesOf = (one: object) => {
      const { market_hash_name, phase, quantity, float_value, paint_seed, inspect_link, name_tag, stickers, charms } =
        one as Record<string, unknown>
      return { market_hash_name, phase, quantity, float_value, paint_seed, inspect_link, name_tag, stickers, charms }
    }
    expect(entries.map(valuesOf)).to.deep.equal(inventory.slice(0, 59).map(valuesOf))
    expect(entries.map(one => one.gamestore_assetid)).to.deep.equal(
      inventory.slice(0, 59).map((one: { assetid: string }) => one.assetid),
    )
    expect(new Set(entries.map(one => one.source))).to.deep.equal(new Set(['gamestore']))
  })

  it('are imported by asset, once for a key, and assets that are not there are reported', async () => {
    const id = await newPortfolio(linked)
    const [one, two] = (await scenario.ask('/v1/inventory/gamestore', { as: linked })).body.data
    const body = { asset_ids: [one.assetid, two.assetid, one.assetid, '1'] }
    const headers = { 'idempotency-key': `import-${id}` }
    const first = await post(`/v1/portfolio/${id}/import`, linked, body, headers)
    expect(first.body).to.deep.equal({
      imported: 2,
      skipped: 0,
      unresolved: ['1'],
    })
    // The link may be another one by then: what was done is reported, and nothing is asked.
    await scenario.database.rows("UPDATE platform_links SET platform_id = '76561190000000101'")
    expect((await post(`/v1/portfolio/${id}/import`, linked, body, headers)).body).to.deep.equal(first.body)
    expect((await post(`/v1/portfolio/${id}/import`, linked, body)).status).to.equal(502)
    expect((await post(`/v1/portfolio/${id}/import`, linked, { asset_ids: [] })).status).to.equal(422)
  })
})
