/**
 * The TypeScript client as its users have it: packed, installed into a fresh project, and run by the snippets of its README against a
 * platform that `make up` has started.
 */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { runTool } from '#infra/stack/one-shot.ts'
import { openChromium } from '#test/harness/chromium.ts'
import { listen } from '#test/harness/listen.ts'
import { runUntilPrinted } from '#test/harness/run-command.ts'
import { type OwnPlatform, prepareOwnPlatform } from './own-platform.ts'

const LIMIT_MS = 600_000
const PACKAGE = new URL('../../services/clients/typescript/', import.meta.url).pathname
const REPOSITORY = new URL('../../', import.meta.url).pathname
const SECRET = 'whsec_of_the_readme'
const ITEM = 'AK-47 | Redline (Field-Tested)'

const README = readFileSync(join(PACKAGE, 'README.md'), 'utf8')
const SNIPPETS = [...README.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, code = '']) => code)
/** The snippets after the first go on with it. */
const BEGIN = /^import[\s\S]*?\n\nconst market = .*\n/.exec(SNIPPETS[0] ?? '')?.[0] ?? ''

/** Each snippet does this, and has printed that. Some go on until they are ended. */
const CLAIMS: [title: string, output: RegExp][] = [
  ['prints the prices of an item', /^provider_\d\d \d+\.\d\d \d+$/m],
  ['lists rifles over all pages', /^\d+ AK-47 \| Redline \(Field-Tested\)$/m],
  ['reads a bulk snapshot', /^[1-9]\d* items$/m],
  ['follows a feed', /^ready$[\s\S]*^(added|updated|removed) /m],
  ['keeps a live book', /^best \{[\s\S]*provider[\s\S]*\} of [1-9]/m],
  ['replays an hour to its end', /^ready[\s\S]*^replay\.end/m],
  ['follows a feed by a token', /^ready$/m],
  ['verifies a webhook', /^d1 false .*Redline[\s\S]*^204 401$/m],
  ['says what was refused, and why', /^404 true No catalog item/m],
]

/** Behind the receiver of the README: a genuine delivery, and one that is not. */
const DELIVERIES = `
import { createHmac } from 'node:crypto'
const body = JSON.stringify({ type: 'alert.triggered', data: { market_hash_name: '${ITEM}', triggered_value: '34.50' } })
const timestamp = String(Math.floor(Date.now() / 1000))
const deliver = async secret => {
  const signature = createHmac('sha256', secret).update(timestamp + '.' + body).digest('hex')
  const headers = { 'x-svc-timestamp': timestamp, 'x-svc-signature': signature, 'x-svc-delivery-id': 'd1' }
  return (await receiver.fetch(new Request('http://localhost', { method: 'POST', body, headers }))).status
}
console.log(await deliver('${SECRET}'), await deliver('forged'))
`

/** Runs in a page: a call and two feeds, by a key and by a token. */
const inPage = (baseUrl: string, key: string): string => `(async () => {
  const { Marketlog } = await import('/node_modules/@marketlog/client/dist/marketlog.js')
  const market = new Marketlog({ baseUrl: '${baseUrl}', key: '${key}' })
  const { items } = await market.listPrices({ market_hash_name: '${ITEM}' })
  const typeOfFirst = async feed => {
    for await (const { type } of feed) return type
  }
  const byKey = await typeOfFirst(market.feed.prices())
  const other = new Marketlog({ baseUrl: '${baseUrl}', feedToken: async () => (await market.issueFeedToken()).token })
  return [items.length > 0, byKey, await typeOfFirst(other.feed.bids())]
})()`

describe('the TypeScript client, packed and installed,', function () {
  this.timeout(LIMIT_MS)
  let own: OwnPlatform
  let project: string

  const run = (command: string, args: string[], directory: string): Promise<string> =>
    runTool({ command, args, directory, limitMs: LIMIT_MS, signal: AbortSignal.timeout(LIMIT_MS) })
  const write = (name: string, text: string): void => writeFileSync(join(project, name), text)

  before('a platform, and a project', async () => {
    own = await prepareOwnPlatform('empty')
    const feed = { connector: 'simulated', interval_ms: 2_000, options: { coverage: 1, churn: 0.2 } }
    const market = {
      name: 'small',
      seed: 7,
      items: 200,
      backfill: { days: 1, refreshes_per_day: 4 },
      base: join(REPOSITORY, 'infra/config/markets/best-known.json.gz'),
      feeds: [
        { ...feed, provider: 'provider_02', side: 'ask' },
        { ...feed, provider: 'provider_02', side: 'bid' },
        { ...feed, provider: 'provider_05', side: 'ask' },
      ],
    }
    const { code, stderr } = await own.up(market)
    expect(code, stderr).to.equal(0)

    project = mkdtempSync(join(tmpdir(), 'marketlog-client-'))
    rmSync(join(PACKAGE, 'dist'), { recursive: true, force: true })
    await run('npm', ['pack', '--pack-destination', project], PACKAGE)
    write('package.json', JSON.stringify({ name: 'fresh', type: 'module', private: true }))
    const packed = readdirSync(project).filter(name => name.endsWith('.tgz'))
    expect(packed).to.have.length(1)
    await run('npm', ['install', '--ignore-scripts', '--no-audit', `./${packed[0]}`], project)
    mkdirSync(join(project, 'snippets'))
    for (const [at, code] of SNIPPETS.entries()) {
      const isWhole = code.includes('const market =') || !code.includes('market.')
      write(`snippets/${at}.ts`, isWhole ? code : BEGIN + code)
    }
  })
  after(async () => {
    await own.remove()
    rmSync(project, { recursive: true, force: true })
  })

  it('has types that its users compile with', async () => {
    const files = readdirSync(join(project, 'snippets')).map(name => join('snippets', name))
    const node = ['--types', 'node', '--typeRoots', join(REPOSITORY, 'node_modules/@types')]
    const settings = ['--noEmit', '--strict', '--target', 'es2022', '--module', 'nodenext', ...node]
    await run('tsc', [...settings, ...files], project)
  })

  it('is tried by every snippet of its README', () => expect(SNIPPETS).to.have.length(CLAIMS.length))

  for (const [at, [title, output]] of CLAIMS.entries())
    it(title, async () => {
      const file = `snippets/${at}.ts`
      if (title.includes('webhook')) write(file, `${SNIPPETS[at]}\n${DELIVERIES}`)
      const { base_url, keys } = own.platform()
      const env = {
        ...process.env,
        MARKETLOG_URL: base_url,
        MARKETLOG_KEY: keys.quant,
        WEBHOOK_SECRETS: `old,${SECRET}`,
      }
      await runUntilPrinted(text => output.test(text), [process.execPath, file], { cwd: project, env })
    })

  it('runs in a page, which has the key in no address', async () => {
    const types: Record<string, string> = { js: 'text/javascript', html: 'text/html' }
    const imports = { 'eventsource-parser': '/node_modules/eventsource-parser/dist/index.js' }
    write('page.html', `<script type="importmap">${JSON.stringify({ imports })}</script>`)
    const site = await listen(
      createServer(({ url = '' }, response) => {
        response.setHeader('content-type', types[url.split('.').at(-1) ?? ''] ?? 'text/plain')
        const file = join(project, url)
        if (existsSync(file)) response.end(readFileSync(file))
        else response.writeHead(404).end()
      }),
    )
    const browser = await openChromium()
    const page = await browser.newPage()
    const addresses: string[] = []
    page.on('request', request => addresses.push(request.url()))
    await page.goto(`http://127.0.0.1:${site.port}/page.html`)
    const { base_url, keys } = own.platform()
    expect(await page.evaluate(inPage(base_url, keys.quant))).to.deep.equal([true, 'ready', 'ready'])
    expect(addresses.filter(address => address.includes('/feed/'))).not.to.have.length(0)
    expect(addresses.filter(address => address.includes(keys.quant))).to.deep.equal([])
    await browser.close()
    await site.close()
  })
})
