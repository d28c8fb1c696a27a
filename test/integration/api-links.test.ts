/** Where price entries lead: `link` by way of GET /r/{provider}/{item_id}, and `url` at once. */
import { expect } from 'chai'
import { type ApiScenario, ELSEWHERE, type ModelRow, openApiScenario, uriOf } from '#test/fixtures/api-scenario.ts'
import { useServers } from '#test/harness/use-servers.ts'

describe('links of prices', () => {
  const platform = useServers()
  let scenario: ApiScenario
  before('a market behind the service', async () => {
    scenario = await openApiScenario(platform, 5)
  })
  after('end of the market', () => scenario.close())

  const listed = (fits: (row: ModelRow) => boolean): ModelRow =>
    scenario.rows.find(row => row.side === 'ask' && fits(row)) ?? expect.fail('the market has no such row')
  const anyRow = (): ModelRow => listed(row => row.itemId === scenario.items.full.item_id)
  const open = ({ provider, itemId }: ModelRow) => scenario.ask(`/r/${provider}/${itemId}`, { as: null })

  it("lead to the row's own URL, else to the marketplace's page of the item, without a key", async () => {
    const own = listed(({ url }) => url !== null && !url.includes(ELSEWHERE))
    const template = listed(row => row.url === null && row.itemId === scenario.items.full.item_id)
    const first = await scenario.ask(`/v1/r/${own.provider}/${own.itemId}`, { as: null })
    expect([first.status, first.headers.get('location')]).to.deep.equal([302, uriOf(own.url as string)])
    const second = await open(template)
    expect(second.status).to.equal(302)
    expect(second.headers.get('location')).to.match(/^https:\/\/[^/]+\/.*AK-47/)
  })

  it('lead where `url` leads, those of a finish to the phase whose price they show', async () => {
    const { finish, full } = scenario.items
    for (const chosen of [
      `market_hash_name=${encodeURIComponent(finish.market_hash_name)}`,
      `item_id=${full.item_id}`,
    ]) {
      const { body } = await scenario.ask(`/prices?${chosen}`)
      const entries: { link: string; url?: string }[] = body.items
      expect(entries).not.to.deep.equal([])
      for (const { link, url } of entries) {
        const { status, headers } = await fetch(link, { redirect: 'manual' })
        expect([status, headers.get('location')], link).to.deep.equal(url === undefined ? [404, null] : [302, url])
      }
    }
  })

  it('never leave the web, whatever a provider sent', async () => {
    const row = anyRow()
    const urls = [
      'javascript:alert(1)',
      'file:///etc/passwd',
      'https://',
      '//evil.example',
      'http://a\r\nSet-Cookie: x=1',
    ]
    for (const url of urls) {
      await scenario.write({ rows: [{ ...row, url }] })
      const { status, headers } = await open(row)
      expect(status, url).to.equal(302)
      expect(headers.get('location'), url).to.match(/^https:\/\/[a-z0-9.-]+\/[^\r\n]*$/)
      expect(headers.get('location'), url).not.to.include('evil')
      expect(headers.has('set-cookie')).to.equal(false)
    }
    await scenario.write({ rows: [row] })
  })

  it('are a 404, and entries have no `url`, where an offer is at no host of its provider', async () => {
    const row = anyRow()
    const [host] = scenario.providers.find(({ key }) => key === row.provider)?.hosts ?? []
    const foreign = [
      ELSEWHERE,
      `${host}.${ELSEWHERE}`,
      `${host}@${ELSEWHERE}`,
      `${ELSEWHERE}\\@${host}`,
      `${host}:8443`,
    ]
    for (const authority of foreign) {
      await scenario.write({ rows: [{ ...row, url: `https://${authority}/` }] })
      const { status, body } = await open(row)
      expect([status, body.code], authority).to.deep.equal([404, 'NOT_FOUND'])
      const prices = await scenario.ask(`/prices?item_id=${row.itemId}&providers=${row.provider}`)
      expect(prices.body.items[0], authority).not.to.have.property('url')
    }
    await scenario.write({ rows: [row] })
  })

  it('are a 404 for unknown providers and items', async () => {
    const codeOf = async (path: string) => {
      const { status, body } = await scenario.ask(path, { as: null })
      return [status, body.code]
    }
    expect(await codeOf('/r/nobody/1')).to.deep.equal([404, 'NOT_FOUND'])
    for (const id of ['2000000000', 'x', '-1', '1.5', '99999999999999999999']) {
      expect(await codeOf(`/r/provider_01/${id}`), id).to.deep.equal([404, 'ITEM_NOT_FOUND'])
    }
  })
})
