import { isDeepStrictEqual } from 'node:util'
import { expect } from 'chai'
import { catalogRevision, catalogVersion, loadCatalog } from '#infra/config/catalog.ts'
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Publisher } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { catalogItemPublished, catalogVersionPublished } from '#schemas/events/catalog-item-published.ts'
import { publishCatalog, publishedCatalog } from '#services/cli/set-up.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

describe('the catalog of a process', () => {
  const platform = useServers({ catalog: 'whole' })
  let kafka: KafkaConnection
  let publisher: Publisher
  before(async () => {
    kafka = platform.connect()
    publisher = await platform.openPublisher(kafka, 'setup')
  })

  const send = (key: string, value: Buffer) => publisher.send([{ topic: 'catalog', key, value, partition: 0 }])
  const sendItem = (item: object, key: string) => send(key, kafka.codec.encode(catalogItemPublished, item as never))
  const sendVersion = (version: string, items = 1) =>
    send('version', kafka.codec.encode(catalogVersionPublished, { version, items }))

  it('equals the published one', async () => {
    const reader = await openCatalogReader(kafka)
    try {
      const published = loadCatalog()
      expect(reader.items()).to.have.length(published.length)
      for (const item of published) {
        const found = reader.byId(item.item_id)
        expect(isDeepStrictEqual({ ...found }, { ...item }), JSON.stringify([found, item])).to.equal(true)
      }
    } finally {
      await reader.close()
    }
  })

  it('is never an older one than before: an older process publishes nothing, a newer one everything', async () => {
    const published = async () => {
      const reader = await openCatalogReader(kafka)
      await reader.close()
      return reader.version()
    }
    const newer = `${catalogRevision() + 1}-0123456789abcdef`
    await sendVersion(newer, 0)
    expect([await publishCatalog(kafka), await published()]).to.deep.equal([0, newer])
    for (const older of [`${catalogRevision() - 1}-0123456789abcdef`, '0123456789abcdef']) {
      await sendVersion(older, 0)
      expect([await publishCatalog(kafka), await published()]).to.deep.equal([loadCatalog().length, catalogVersion()])
    }
  })

  it('used to resolve the old name of a renamed item, and one version beside the next; set-up publishes no such change', async () => {
    const [first, second] = loadCatalog()
    const { market_hash_name: old, phase } = first ?? expect.fail('no item')
    const name = `${second?.market_hash_name} renamed`
    const renamed = { ...first, market_hash_name: name, supply: null }
    const reader = await openCatalogReader(kafka)
    const seen = () => [reader.idOf(old, phase), reader.idOf(name, phase), reader.idsOfName(old)]
    try {
      const [lookup, version] = [reader.lookup(), reader.version()]
      await sendItem(renamed, String(first?.item_id))
      const late = await openCatalogReader(kafka)
      expect([late.idOf(name, phase), late.version()], 'of a reader that opens meanwhile').to.deep.equal([
        undefined,
        version,
      ])
      await late.close()
      expect(seen()).to.deep.equal([first?.item_id, undefined, [first?.item_id]])
      const next = `${catalogRevision() - 1}-fedcba9876543210`
      await sendVersion(next)
      await eventually(() => reader.version() === next, 'the next version')
      expect(seen()).to.deep.equal([undefined, first?.item_id, []])
      expect([lookup.version, lookup.idOf(old, phase)], 'of a lookup that was taken before').to.deep.equal([
        version,
        first?.item_id,
      ])
    } finally {
      await reader.close()
    }
    const topic = kafka.topicName('catalog')
    const range = await openRangeReader(kafka, [topic])
    const end = await range.end(topic, 0)
    const refused = await publishCatalog(kafka).catch((error: Error) => error.message)
    expect(refused).to.match(new RegExp(`item ${first?.item_id} was published as .*npm run catalog:build`))
    expect(await range.end(topic, 0), 'nothing written').to.equal(end)
    await range.close()
  })

  it('used to go back where a newer publication was cut off: the last whole version decides', async () => {
    const newer = `${catalogRevision() + 1}-0123456789abcdef`
    const [item] = loadCatalog()
    await sendVersion(newer)
    await sendItem({ ...item, supply: item?.supply ?? null }, String(item?.item_id))
    expect(await publishedCatalog(kafka)).to.deep.equal({ newest: newer, isLast: false })
    expect(await publishCatalog(kafka)).to.equal(0)
  })
})
