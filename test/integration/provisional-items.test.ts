/** The real roles on a real log. The catalog lacks every third of the names that are listed. */
import { expect } from 'chai'
import { catalogRevision } from '#infra/config/catalog.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { CatalogReader, StartRole } from '#infra/runtime/role.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { catalogItemPublished, catalogVersionPublished } from '#schemas/events/catalog-item-published.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { HOUR_MS } from '#schemas/values/instant.ts'
import { FIRST_PROVISIONAL_ID } from '#streams/provisional-items/step.ts'
import { openTestIngest, type TestIngest } from '#test/fixtures/test-ingest.ts'
import { eventually } from '#test/harness/eventually.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import { smallCatalog } from '#test/harness/small-catalog.ts'
import type { SpawnedRole } from '#test/harness/spawn-role.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'

const listed = smallCatalog()
  .filter(({ phase }) => phase === null)
  .slice(0, 90)
const isLacking = (index: number): boolean => index % 3 === 0
const lacking = listed.filter((_, index) => isLacking(index))
const lackingNames = lacking.map(({ market_hash_name }) => market_hash_name)
const FIRST_TIME = Date.UTC(2026, 2, 3)

describe('provisional items', () => {
  const platform = useServers({
    catalog: () => smallCatalog().filter(({ market_hash_name }) => !lackingNames.includes(market_hash_name)),
  })
  let kafka: KafkaConnection
  let ingest: TestIngest
  let roles: StartedRoles
  let learner: SpawnedRole
  let catalog: CatalogReader
  let hour = 0

  /** Lends the catalog that the roles beside it use. */
  const lendCatalog: StartRole = async context => {
    catalog = await context.catalog()
    return { name: 'lender', ready: async () => undefined, stop: async () => undefined }
  }
  /** One refresh of each of two marketplaces, taken by the book and by the learner. */
  const refresh = async (): Promise<void> => {
    hour += 1
    for (const provider of ['provider_02', 'provider_05']) {
      const entries = listed.map(({ market_hash_name }, index) => {
        return { market_hash_name, price: 100 + index, quantity: 1 }
      })
      const observedAt = FIRST_TIME + hour * HOUR_MS
      await ingest.publish({ provider, side: 'ask', observedAt, currency: 'USD', entries })
    }
    await platform.drained(['book', 'provisional-items'])
  }
  const idsOf = (names: readonly string[]) => names.map(name => catalog.idOf(name, null))
  const published = async (): Promise<CatalogItem[]> =>
    (await readTopic(kafka, 'provisionalItems')).map(({ value }) => value)

  before(async () => {
    kafka = platform.connect()
    ingest = await openTestIngest(kafka)
    roles = await platform.startRoles([lendCatalog, 'book', 'api'])
    learner = await platform.spawnRole('provisional-items')
  })
  after(() => ingest.close())

  it('are there after two refreshes of two marketplaces, once each, with what their names tell', async () => {
    await refresh()
    expect(await published()).to.deep.equal([])
    await refresh()
    await eventually(() => idsOf(lackingNames).every(id => id !== undefined), 'the items in the catalog')
    const items = await published()
    expect(items.map(one => one.market_hash_name).sort()).to.deep.equal([...lackingNames].sort())
    expect(items.map(one => one.item_id).sort()).to.deep.equal(lacking.map((_, index) => FIRST_PROVISIONAL_ID + index))
    for (const { market_hash_name, base_name, wear_name, is_stattrak } of lacking) {
      const found = catalog.byId(catalog.idOf(market_hash_name, null) ?? 0)
      expect(found).to.include({ is_provisional: true, wear_name, is_stattrak, rarity_name: null, image_url: null })
      expect(found?.base_name).to.equal(base_name)
    }
  })

  it('are priced by the next refresh, like any item', async () => {
    await refresh()
    const changes: BookChanged[] = (await readTopic(kafka, 'bookChanges'))
      .filter(({ event }) => event === 'BookChanged')
      .map(({ value }) => value)
    const priced = changes.filter(({ item_id }) => item_id >= FIRST_PROVISIONAL_ID)
    expect(priced).to.have.length(2 * lacking.length)
    const prices = new Map(priced.map(({ item_id, price }) => [catalog.byId(item_id)?.market_hash_name, price]))
    for (const [index, { market_hash_name }] of listed.entries())
      if (isLacking(index)) expect(prices.get(market_hash_name), market_hash_name).to.equal(100 + index)
  })

  it('are served by GET /items with is_provisional, which other items lack', async () => {
    const headers = { authorization: `Bearer ${await platform.newKey()}` }
    const itemOf = async (id: number | undefined) => {
      const response = await fetch(`${roles.baseUrl}/v1/items?item_id=${id}`, { headers })
      return ((await response.json()) as { items: object[] }).items[0]
    }
    const [lackingId, knownId] = idsOf([lackingNames[0] ?? '', listed[1]?.market_hash_name ?? ''])
    expect(await itemOf(lackingId)).to.include({ market_hash_name: lackingNames[0], is_provisional: true })
    expect(await itemOf(knownId)).not.to.have.property('is_provisional')
  })

  it('are given no second id by a process that takes over from a killed one', async () => {
    const before = await published()
    await learner.kill('SIGKILL')
    learner = await platform.spawnRole('provisional-items')
    await refresh()
    expect(await published()).to.deep.equal(before)
  })

  it('are completed under their ids by a catalog that comes to have them', async () => {
    const [item] = lacking
    const id = catalog.idOf(item?.market_hash_name ?? '', null)
    const version = `${catalogRevision() + 1}-0123456789abcdef`
    const setUp = await platform.openPublisher(kafka, 'setup')
    const value = kafka.codec.encode(catalogItemPublished, { ...item, supply: item?.supply ?? null } as never)
    const about = { topic: 'catalog', partition: 0 } as const
    const end = kafka.codec.encode(catalogVersionPublished, { version, items: 1 })
    await setUp.send([
      { ...about, key: String(item?.item_id), value },
      { ...about, key: 'version', value: end },
    ])
    await eventually(() => catalog.version().startsWith(version), 'the new version')
    expect(catalog.byId(id ?? 0)).to.deep.equal({ ...item, item_id: id })
    expect([catalog.idOf(item?.market_hash_name ?? '', null), catalog.byId(item?.item_id ?? 0)]).to.deep.equal([
      ...[id],
      undefined,
    ])
  })
})
