/**
 * Names as marketplaces, files and clients write them find the catalog's items wherever names come in.
 *
 * Everything here writes two names otherwise than the catalog: one of the game's own with two blanks in a row, and one with an
 * accent; and one that is nearly an item's, which the refusal names. The real roles on a real log, from observations to every route that takes a name.
 */
import { expect } from 'chai'
import { loadCatalog } from '#infra/config/catalog.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { HOUR_MS } from '#schemas/values/instant.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import { linkPlatformAccount } from '#services/accounts/sign-in/commands.ts'
import { STAND_IN } from '#services/inventory/main.ts'
import { type LoopbackPlatform, openLoopbackPlatform } from '#test/fixtures/platform-stand-in.ts'
import { openTestIngest, type TestIngest } from '#test/fixtures/test-ingest.ts'
import { eventually } from '#test/harness/eventually.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import { type Answer, type Ask, openScenario, type Scenario } from '#test/harness/scenario.ts'
import { openSse } from '#test/harness/sse-client.ts'
import { useServers } from '#test/harness/use-servers.ts'

const NAMES = ['Sticker | Ninjas in Pyjamas  | Katowice 2015', 'Nova | Wurst H\u00f6lle (Field-Tested)']
/** Nearly one of them, which no item has. */
const MISS = 'Nova | Wurst Hlle (Field-Tested)'
/** The same two as they come in. */
const WRITTEN = ['Sticker |\u00a0Ninjas in Pyjamas | Katowice 2015 ', '\ufeffNova | Wurst Ho\u0308lle  (Field-Tested)']
const PROVIDERS = ['provider_02', 'provider_05']
const ROLES = ['fx', 'book', 'live-view', 'candles', 'history', 'sales', 'provisional-items', 'feed', 'api'] as const

describe('names of items, written otherwise', () => {
  const catalog = loadCatalog().filter(item => NAMES.includes(item.market_hash_name))
  const [sticker, shotgun] = NAMES.map(name => catalog.find(item => item.market_hash_name === name)) as [
    CatalogItem,
    CatalogItem,
  ]
  const both = [sticker, shotgun].map(item => item.item_id)
  const servers = useServers({ catalog: () => catalog })
  const startMs = Math.floor(Date.now() / HOUR_MS) * HOUR_MS - 8 * HOUR_MS
  let kafka: KafkaConnection
  let ingest: TestIngest
  let platform: LoopbackPlatform
  let scenario: Scenario
  let account: { key: string; account_id: string }
  let round = 0

  const refresh = async (): Promise<void> => {
    round += 1
    const entries = WRITTEN.map((market_hash_name, at) => ({
      market_hash_name,
      price: 1_000 + 10 * round + at,
      quantity: 2,
    }))
    const about = { observedAt: startMs + round * HOUR_MS, currency: 'USD', entries }
    for (const provider of PROVIDERS) await ingest.publish({ provider, side: 'ask', ...about })
    await ingest.publish({ provider: 'provider_02', side: 'bid', ...about })
    await servers.drained(ROLES)
  }
  const ask = (path: string, more: Ask = {}) => scenario.ask(`/v1${path}`, { as: account.key, ...more })
  const post = (path: string, body: unknown) => ask(path, { method: 'POST', body })
  const query = (at: number) => `market_hash_name=${encodeURIComponent(WRITTEN[at] as string)}`
  const newPortfolio = async (): Promise<string> => (await post('/portfolio', { name: 'names' })).body.id
  const heldIn = async (id: string) =>
    (await ask(`/portfolio/${id}/items`)).body.map((entry: { item_id: number; market_hash_name: string }) => [
      entry.item_id,
      entry.market_hash_name,
    ])
  const shown = [sticker, shotgun].map(item => [item.item_id, item.market_hash_name])

  before('a market that is seen twice', async () => {
    kafka = servers.connect()
    ingest = await openTestIngest(kafka)
    platform = await openLoopbackPlatform(
      [sticker, shotgun].map((item, at) => ({ ...item, market_hash_name: WRITTEN[at] as string })),
    )
    account = await createAccountWithKey(servers.database, { tier: 'quant' })
    await linkPlatformAccount(servers.database, account.account_id, STAND_IN.full)
    scenario = await openScenario(servers, { roles: ROLES, config: { inventoryUrl: platform.url } })
    await ingest.publishRates()
    await refresh()
    await refresh()
    const sold = { price: 900, sold_at: startMs + 2 * HOUR_MS, quantity: 1 }
    const entries = WRITTEN.map(market_hash_name => ({ market_hash_name, ...sold }))
    const about = { provider: 'provider_12', side: 'sale', observedAt: sold.sold_at, currency: 'USD' } as const
    await ingest.publish({ ...about, entries })
    await servers.drained(ROLES)
  })
  after('end of both', async () => {
    await scenario?.close()
    await platform?.close()
    await ingest?.close()
  })

  it('are those of items in observations and sales, unresolved in none, and become no provisional item', async () => {
    const changes = (await readTopic(kafka, 'bookChanges')).filter(({ event }) => event === 'BookChanged')
    expect(new Set(changes.map(({ value }) => value.item_id))).to.deep.equal(new Set(both))
    expect([await readTopic(kafka, 'unresolved'), await readTopic(kafka, 'provisionalItems')]).to.deep.equal([[], []])
  })

  const named = [404, 'ITEM_NOT_FOUND', `No catalog item has this name; the nearest is "${NAMES[1]}".`]
  const refusalOf = ({ status, body }: Answer) => [status, body.code, body.detail]

  for (const path of [
    ...['/prices', '/bids', '/prices/candles?interval=1h', '/prices/history', '/sales', '/items'],
    ...['/market/indicators', '/market/history/chart'],
  ]) {
    it(`find the item on GET ${path}, which shows a filter as it was sent and records as the catalog has them`, async () => {
      for (const [at, item] of [sticker, shotgun].entries()) {
        const by = (selector: string) => ask(`${path}${path.includes('?') ? '&' : '?'}${selector}`)
        const [byName, byId] = [await by(query(at)), await by(`item_id=${item.item_id}`)]
        expect([byName.status, byName.body.items, byName.body.data]).to.deep.equal([
          ...[200, byId.body.items, byId.body.data],
        ])
        const records = byName.body.items ?? byName.body.data ?? byName.body.series
        expect(records, 'something to compare').not.to.be.empty
        const { filters } = byName.body.meta ?? {}
        if (filters) expect(filters.market_hash_name).to.equal(WRITTEN[at])
        const name = byName.body.meta?.market_hash_name ?? [records].flat()[0].market_hash_name
        expect(name).to.equal(item.market_hash_name)
      }
    })

    if (path !== '/items')
      it(`on GET ${path} are a 404 that names the nearest where they are nearly one's, and without where they are not`, async () => {
        const by = (name: string) =>
          ask(`${path}${path.includes('?') ? '&' : '?'}market_hash_name=${encodeURIComponent(name)}`)
        expect(refusalOf(await by(MISS))).to.deep.equal(named)
        const far = await by('no such thing')
        expect([far.status, far.body.code]).to.deep.equal([404, 'ITEM_NOT_FOUND'])
        expect(far.body.detail).not.to.include('nearest')
      })
  }

  it('that are nearly one’s find nothing on creates, GET /items and with a phase that is not the item’s', async () => {
    const id = await newPortfolio()
    const entry = { market_hash_name: MISS, quantity: 1 }
    const transaction = { ...entry, type: 'buy', price: 100, date: '2026-01-02' }
    expect(refusalOf(await post(`/portfolio/${id}/items`, entry))).to.deep.equal(named)
    expect(refusalOf(await post(`/portfolio/${id}/transactions`, transaction))).to.deep.equal(named)
    const listed = await ask(`/items?market_hash_name=${encodeURIComponent(MISS)}`)
    expect([listed.status, listed.body.items]).to.deep.equal([200, []])
    const phased = await ask(`/prices?${query(1)}&phase=Ruby`)
    expect([phased.status, phased.body.code]).to.deep.equal([404, 'ITEM_NOT_FOUND'])
    expect(phased.body.detail).not.to.include('nearest')
  })

  it('are one item each in a batch, however often and in whichever spellings', async () => {
    const market_hash_names = [...WRITTEN, ...NAMES, 'No\u00a0such ', 'No such']
    for (const side of ['prices', 'bids']) {
      const { meta, items, names_not_found } = (await post(`/${side}/batch`, { market_hash_names })).body
      expect(items.map((one: CatalogItem) => [one.item_id, one.market_hash_name])).to.deep.equal(shown)
      expect([meta.requested_item_count, names_not_found]).to.deep.equal([6, ['No\u00a0such ', 'No such']])
    }
  })

  it('filter feeds, their snapshots and replays', async () => {
    const filters = WRITTEN.map(name => `market_hash_names=${encodeURIComponent(name)}`).join('&')
    const from = new Date(startMs).toISOString()
    const streams = [
      ['live', `/feed/prices?${filters}`],
      ['snapshot', `/feed/prices?snapshot=true&${filters}`],
      ['replay', `/feed/replay/prices?speed=0&from=${from}&${filters}`],
    ]
    for (const [what, path] of streams) {
      const client = await openSse(`${scenario.roles.baseUrl}/v1${path}`, { key: account.key })
      try {
        const ready = await client.event(({ event }) => event === 'ready')
        expect(ready.data, what).to.include({ market_hash_names_filter_count: 2 })
        if (what === 'live') await refresh()
        const delivered = () =>
          client.events
            .filter(({ event }) => event === 'prices.changed')
            .flatMap(({ data }) => (data as { items: { item_id: number; market_hash_name: string }[] }).items)
        const isDelivered = (id: number) => delivered().some(one => one.item_id === id)
        await eventually(() => both.every(isDelivered), `both items, ${what}`)
        expect(new Set(delivered().map(one => one.market_hash_name)), what).to.deep.equal(new Set(NAMES))
      } finally {
        client.close()
      }
    }
  })

  it('find alerts', async () => {
    for (const item_id of both) {
      await post('/account/alerts', { item_id, kind: 'price_below', threshold_value: '0.01' })
    }
    for (const [at, name] of WRITTEN.entries()) {
      const { alerts } = (await ask(`/account/alerts?search=${encodeURIComponent(name)}`)).body
      expect(alerts.map((one: { item: CatalogItem }) => one.item.item_id)).to.deep.equal([both[at]])
    }
  })

  it('find the items of entries, transactions and files', async () => {
    const portfolios = [await newPortfolio(), await newPortfolio(), await newPortfolio()] as const
    for (const market_hash_name of WRITTEN) {
      const item = { market_hash_name, quantity: 1 }
      await post(`/portfolio/${portfolios[0]}/items`, item)
      await post(`/portfolio/${portfolios[1]}/transactions`, { ...item, type: 'buy', price: 1, date: '2026-01-05' })
    }
    const form = new FormData()
    form.set('file', new Blob([`market_hash_name,quantity\n${WRITTEN.map(name => `"${name}",1\n`).join('')}`]), 'f.csv')
    const file = new Response(form)
    const headers = { 'content-type': file.headers.get('content-type') as string }
    const body = new Uint8Array(await file.arrayBuffer())
    const { body: imported } = await ask(`/portfolio/${portfolios[2]}/import/csv`, { method: 'POST', body, headers })
    expect(imported).to.deep.equal({ imported: 2, skipped: 0, unresolved: [], errors: [], price_unit: 'minor' })
    for (const id of portfolios) expect((await heldIn(id)).sort()).to.deep.equal(shown.toSorted())
  })

  it('are those of items in an inventory, which it shows and imports', async () => {
    const { data } = (await ask('/inventory/gamestore')).body
    const named = new Set(data.slice(0, -1).map((asset: { market_hash_name: string }) => asset.market_hash_name))
    expect(named).to.deep.equal(new Set(NAMES))
    const id = await newPortfolio()
    const { imported, unresolved } = (await post(`/portfolio/${id}/import`, {})).body
    expect([imported, unresolved]).to.deep.equal([data.length - 1, ['2021 Service Medal']])
    expect(new Set((await heldIn(id)).map(([itemId]: [number]) => itemId))).to.deep.equal(new Set(both))
  })
})
