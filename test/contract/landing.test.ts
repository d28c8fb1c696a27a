import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { expect } from 'chai'
import { loadMarket } from '#infra/config/market.ts'
import { openScenario, type Scenario } from '#test/harness/scenario.ts'
import { useServers } from '#test/harness/use-servers.ts'

const BROWSER = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8'
const HEALTH = '/healthz'

describe('the root of a platform', () => {
  const platform = useServers()
  let scenario: Scenario
  before('the service', async () => {
    scenario = await openScenario(platform)
  })
  after('end of the service', () => scenario.close())

  const ask = (path: string, accept = BROWSER, as: string | null = null) =>
    scenario.ask(path, { as, headers: { accept } })

  /** Of the page at a root, with the files that it loads. */
  const linksOf = (text: string): string[] =>
    [...text.matchAll(/ (?:href|src)="([^"]+)"/g)].map(([, link = '']) => link)
  const pathTo = (root: string, link: string): string => {
    const { origin, pathname } = new URL(link, `${scenario.roles.baseUrl}${root}/`)
    expect(origin, link).to.equal(scenario.roles.baseUrl)
    return pathname
  }

  for (const root of ['', '/v1']) {
    it(`answers a program at ${root}/ with JSON whose links lead to documents`, async () => {
      for (const accept of ['*/*', 'application/json', 'image/png', 'application/json, text/html;q=0.9']) {
        const { status, headers, body } = await ask(`${root}/`, accept)
        expect([status, headers.get('content-type')]).to.deep.equal([200, 'application/json; charset=utf-8'])
        expect([headers.get('vary'), headers.get('cache-control')]).to.deep.equal(['Accept', 'public, max-age=300'])
        expect(body).to.include({ name: 'marketlog', version: '1.0.0' })
        expect(body.description).to.include('41 marketplaces')
        expect(body.links).to.have.all.keys('docs', 'reference', 'openapi', 'asyncapi', 'llms', 'health')
        for (const link of Object.values<string>(body.links))
          expect((await ask(pathTo(root, link))).status, link).to.equal(200)
      }
    })

    it(`answers a browser at ${root}/ with a page that leads to the documents`, async () => {
      const { status, headers, text } = await ask(`${root}/`)
      expect([status, headers.get('content-type')]).to.deep.equal([200, 'text/html; charset=utf-8'])
      expect([headers.get('vary'), headers.get('cache-control')]).to.deep.equal(['Accept', 'public, max-age=300'])
      const links = linksOf(text)
      expect(links).to.include.members(['docs', 'openapi.json', 'asyncapi.json', 'llms.txt', '../healthz', '#keys'])
      for (const link of links.filter(one => !one.startsWith('#'))) {
        const path = pathTo(root, link)
        expect(path.startsWith(root) || path === HEALTH, `${path} is below ${root}`).to.equal(true)
      }
    })
  }

  it('names files by their content, which may be kept for a year', async () => {
    const { text } = await ask('/')
    const files = [...new Set(linksOf(text).filter(link => link.startsWith('assets/')))]
    expect(files.map(file => file.replace(/-[0-9a-f]{16}\./, '.'))).to.have.members(
      ['frame.css', 'site.css', 'landing.js', 'icon.svg'].map(file => `assets/${file}`),
    )
    for (const file of files) {
      const { headers, text: body } = await ask(`/${file}`)
      expect(file).to.include(createHash('sha256').update(body).digest('hex').slice(0, 16))
      expect(headers.get('cache-control')).to.equal('public, max-age=31536000, immutable')
      expect((await ask(`/${file.replace('-', '-0')}`)).status).to.equal(404)
    }
  })

  it('shows no key, and keeps what it says to a key out of shared caches', async () => {
    const key = await platform.newKey('free')
    const { text, headers } = await ask('/', BROWSER, key)
    expect(text).not.to.include(key)
    expect(text.match(/sk_live_(?!…)/g)).to.equal(null)
    expect(headers.get('cache-control')).to.equal('private, max-age=300')
  })

  it('shows a sample that is recorded: price and day of the newest refresh', async () => {
    const { text } = await ask('/')
    const base = JSON.parse(gunzipSync(readFileSync(loadMarket('full').base ?? '')).toString())
    const [, item = '', amount] = />([^<]+)<\/h2>\s*<p class="amount" id="amount">\$([\d.]+)</.exec(text) ?? []
    expect(Math.round(Number(amount) * 100)).to.equal(base.prices[item])
    const day = new Date(base.refreshed_at).toLocaleDateString('en-GB', {
      day: 'numeric',
      month: 'long',
      year: 'numeric',
    })
    expect(text).to.include(`on ${day}.`)
  })
})
