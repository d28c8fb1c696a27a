/**
 * The catalog that a process holds is the one that was published, and holds what many items have in common once.
 */
import { isDeepStrictEqual } from 'node:util'
import { expect } from 'chai'
import { loadCatalog } from '#infra/config/catalog.ts'
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { useServers } from '#test/harness/use-servers.ts'

describe('the catalog of a process', () => {
  const platform = useServers()

  it('equals the published one, with one list for all items of the same crates', async () => {
    const { config, log } = platform
    const reader = await openCatalogReader(connectKafka({ config, role: 'test', log }))
    try {
      const published = loadCatalog()
      expect(reader.items()).to.have.length(published.length)
      for (const item of published) {
        const found = reader.byId(item.item_id)
        expect(isDeepStrictEqual({ ...found }, { ...item }), JSON.stringify([found, item])).to.equal(true)
      }
      const lists = new Set(reader.items().map(({ crates }) => crates))
      const different = new Set(published.map(({ crates }) => crates.join('\n')))
      expect([lists.size, different.size < published.length / 10]).to.deep.equal([different.size, true])
    } finally {
      await reader.close()
    }
  })
})
