/**
 * The console as a person uses it, in Chromium against a platform that `marketlog up` has started: what a page shows is what the API says at that
 * moment, through cuts and restarts, with any tier's key; nothing leaves the host, no key is in an address, and no name is more than text.
 */
import axe from 'axe-core'
import { expect } from 'chai'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { openChromium } from '#test/harness/chromium.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectFigure } from '#test/harness/figures.ts'
import { openWatchedPage, type WatchedPage } from '#test/harness/watched-page.ts'
import { type ConsolePlatform, openConsolePlatform } from './console-platform.ts'

const LIMIT_MS = 600_000
const ITEM = 'AK-47 | Redline (Field-Tested)'
const FIRST_VIEW_KIB_MAX = 350
const HOSTILE = [
  `<img src=x onerror="document.title='run'">`,
  `\u202Eelitsoh \u2066right to left\u2069`,
  `long ${'x'.repeat(9_990)} name`,
]

const dollars = (cents: number): string =>
  new Intl.NumberFormat('en', { style: 'currency', currency: 'USD' }).format(cents / 100)

describe('the console in a browser', function () {
  this.timeout(LIMIT_MS)
  let platform: ConsolePlatform
  let browser: Browser
  let itemId: number
  let context: BrowserContext | undefined

  before('a platform and a browser', async () => {
    platform = await openConsolePlatform()
    browser = await openChromium()
    const { body } = await platform.own.get('/prices', { market_hash_name: ITEM })
    itemId = (body as { items: { item_id: number }[] }).items[0]?.item_id ?? 0
    expect(itemId).to.be.above(0)
  })
  after(async () => {
    await browser?.close()
    await platform?.close()
  })
  afterEach(async () => {
    platform.proxy.heal()
    platform.proxy.names.clear()
    await context?.close()
    context = undefined
  })

  const addressOf = (path: string): string => `${platform.proxy.origin}/console/${path}`
  /** A page of a new session; the key is in a link, as `make demo` prints one. */
  const open = async (
    path = '',
    { tier = 'quant', options = {} }: { tier?: 'free' | 'starter' | 'pro' | 'quant' | 'none'; options?: object } = {},
  ): Promise<WatchedPage> => {
    context = await browser.newContext(options)
    const key = tier === 'none' ? '' : `#key=${platform.own.platform().keys[tier]}`
    return openWatchedPage(context, addressOf(path) + key)
  }
  const isLive = (page: Page) => page.locator('.badge.live', { hasText: 'Live' }).waitFor()
  const rowOf = (page: Page, name: string) =>
    page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) })
  /** The lowest ask by the API. */
  const lowestAsk = async (): Promise<number> => {
    const { body } = await platform.own.get('/prices', { item_id: itemId })
    return Math.min(...(body as { items: { lowest_ask: number }[] }).items.map(({ lowest_ask }) => lowest_ask))
  }
  /** Once a page and the API say the same at one moment. */
  const agrees = (shown: () => Promise<string | null>, actual: () => Promise<string>, what: string) =>
    eventually(async () => {
      const [before, text, after] = [await actual(), await shown(), await actual()]
      expect(before).to.equal(after)
      expect(text).to.equal(after)
      return true
    }, what)
  const boardAgrees = (page: Page) =>
    agrees(
      () => rowOf(page, ITEM).getByRole('cell').first().textContent(),
      async () => dollars(await lowestAsk()),
      'the best ask of the board',
    )
  const violationsOf = async (page: Page): Promise<string[]> => {
    // By the protocol, which no policy of the page concerns.
    await page.evaluate(axe.source)
    const found = await page.evaluate<{ violations: { id: string; nodes: { html: string }[] }[] }>('axe.run()')
    return found.violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(' ')}`)
  }

  it('asks for a key, and shows the board live by it, kept in the session alone', async () => {
    const { page, complaints } = await open('', { tier: 'none' })
    const { quant } = platform.own.platform().keys
    await page.getByLabel('Your key').fill(quant)
    await page.getByRole('button', { name: 'Show the market' }).click()
    await isLive(page)
    await page.getByRole('searchbox').fill('ak-47 redline ft')
    await boardAgrees(page)
    expect(
      await page.evaluate('JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie])'),
    ).to.equal(JSON.stringify([{ 'marketlog-key': quant }, {}, '']))
    await page.reload()
    await isLive(page)
    expect(platform.proxy.requests.filter(line => line.includes(quant))).to.deep.equal([])
    expect(complaints).to.deep.equal([])
    await page.getByRole('button', { name: 'Forget key' }).click()
    await page.getByLabel('Your key').waitFor()
    expect(await page.evaluate('sessionStorage.length')).to.equal(0)
    await eventually(() => platform.proxy.openFeeds() === 0, 'the end of the feed')
  })

  it('is entered by the link that a start prints, which leaves no key in the address', async () => {
    const link = /http:\S+\/console\/#key=\S+/.exec(platform.printed)?.[0] ?? ''
    context = await browser.newContext()
    const { page } = await openWatchedPage(context, link)
    await isLive(page)
    expect(page.url()).to.equal(link.slice(0, link.indexOf('#')))
    expect(await page.evaluate('history.length')).to.be.at.most(2)
  })

  it('shares one feed and one key among tabs, until the last is closed', async () => {
    const { page } = await open()
    await isLive(page)
    const other = await (context as BrowserContext).newPage()
    await other.goto(addressOf(''))
    await isLive(other)
    await page.close()
    await other.getByRole('searchbox').fill(ITEM)
    await boardAgrees(other)
    expect(platform.proxy.openFeeds()).to.equal(1)
    await other.close()
    await eventually(() => platform.proxy.openFeeds() === 0, 'the end of the feed')
  })

  it('finds, filters and sorts, and says so in its address, which shows the same to who gets it', async () => {
    const { page } = await open()
    await isLive(page)
    await page.keyboard.press('/')
    await page.keyboard.type('ak-47')
    await page.getByLabel('Wear').selectOption('Field-Tested')
    await page.getByRole('button', { name: 'Best ask' }).click()
    await page.getByRole('button', { name: 'Best ask' }).click()
    const names = async (from: Page) => {
      const rows = await from.getByRole('rowheader').allTextContents()
      expect(rows).to.have.length.above(2)
      for (const name of rows) expect(name).to.match(/AK-47.*\(Field-Tested\)/)
      return rows
    }
    await eventually(() => names(page), 'the rows')
    expect(new URL(page.url()).search).to.equal('?q=ak-47&wear=Field-Tested&sort=ask&way=up')
    const asks = async () => {
      const cells = await page.locator('tbody tr td:nth-child(2)').allTextContents()
      return cells.map(text => Number(text.replace(/[$,]/g, '')))
    }
    await eventually(async () => {
      const shown = await asks()
      expect(shown).to.deep.equal(shown.toSorted((a, b) => a - b))
      return true
    }, 'the order')
    const { page: linked } = await openWatchedPage(context as BrowserContext, page.url())
    await eventually(
      async () => (await names(linked)).length === (await names(page)).length,
      'the same rows by the link',
    )
  })

  it('goes on after its feed was cut, and after the server was killed, with what the API says then', async () => {
    const { page } = await open(`?q=${encodeURIComponent(ITEM)}`)
    await isLive(page)
    platform.proxy.cut()
    await page.getByText('Interrupted').waitFor()
    platform.proxy.requests.splice(0)
    platform.proxy.heal()
    await isLive(page)
    expect(platform.proxy.requests.find(line => line.includes('/feed/prices'))).to.match(/last_event_id=/)
    await boardAgrees(page)
    process.kill(platform.own.platform().services.api?.pid ?? 0, 'SIGKILL')
    await page.getByText('Interrupted').waitFor()
    await isLive(page)
    await boardAgrees(page)
  })

  it('says why a key is refused, and keeps it nowhere', async () => {
    const { page } = await open('', { tier: 'none' })
    await page.getByLabel('Your key').fill('sk_live_root_unknown')
    await page.getByRole('button', { name: 'Show the market' }).click()
    expect(await page.getByRole('alert').textContent()).to.match(/^The key was refused: .*key/i)
    expect(await page.evaluate('sessionStorage.length')).to.equal(0)
    await page.getByLabel('Your key').fill(platform.own.platform().keys.quant)
    await page.getByRole('button', { name: 'Show the market' }).click()
    await isLive(page)
  })

  it('shows an item as the API has it: asks, bids, candles, sales, in any currency', async () => {
    const { page, complaints } = await open(`?q=${encodeURIComponent(ITEM)}`)
    await rowOf(page, ITEM).getByRole('link').click()
    await page.getByRole('heading', { name: ITEM }).waitFor()
    const ladder = async (side: string) =>
      (await page.getByRole('region', { name: side, exact: true }).locator('td.price').allTextContents()).join()
    await agrees(
      () => ladder('Asks'),
      async () => {
        const { body } = await platform.own.get('/prices', { item_id: itemId })
        const asks = (body as { items: { lowest_ask: number }[] }).items.map(({ lowest_ask }) => lowest_ask)
        return asks
          .toSorted((a, b) => a - b)
          .map(dollars)
          .join()
      },
      'the ladder of asks',
    )
    const { body: sold } = await platform.own.get('/sales', { item_id: itemId })
    const prices = (sold as { items: { price: number }[] }).items.map(({ price }) => dollars(price))
    expect(prices).to.have.length.above(0)
    await page.getByRole('region', { name: 'Latest sales' }).waitFor()
    const shownSales = await page.getByRole('region', { name: 'Latest sales' }).locator('td.number').allTextContents()
    expect(prices).to.include.members(shownSales.filter(text => text.startsWith('$')))
    const chart = page.locator('[data-last-close]').first()
    await agrees(
      () => chart.getAttribute('data-last-close'),
      async () => String(await lowestAsk()),
      'a last candle that closes at the best ask',
    )
    await page.getByRole('button', { name: '5m' }).click()
    await page.getByRole('button', { name: 'Bollinger 20' }).click()
    await page.getByRole('button', { name: 'by float' }).click()
    expect(new URL(page.url()).search).to.equal('?interval=5m&lines=Bollinger+20&sales=float')

    await page.getByLabel('Currency').focus()
    await page.getByLabel('Currency').selectOption('EUR')
    await agrees(
      () => page.getByTestId('best-ask').textContent(),
      async () => {
        const { body } = await platform.own.get('/prices', { item_id: itemId, currency: 'EUR' })
        const asks = (body as { items: { lowest_ask: number }[] }).items.map(({ lowest_ask }) => lowest_ask)
        return dollars(Math.min(...asks)).replace('$', '€')
      },
      'the best ask in euro',
    )
    await page.keyboard.press('Escape')
    await page.getByRole('heading', { name: ITEM }).click()
    await page.keyboard.press('g')
    await page.keyboard.press('b')
    await isLive(page)
    expect(new URL(page.url()).pathname).to.equal('/console/')
    expect(complaints).to.deep.equal([])
  })

  it('shows movers, indexes, arbitrage and providers as the API has them', async () => {
    const { page, complaints } = await open('providers')
    const { body: providers } = await platform.own.get('/providers')
    await page.getByRole('cell', { name: Object.keys(providers as object)[0] ?? '', exact: true }).waitFor()
    expect(await page.locator('tbody tr').count()).to.equal(Object.keys(providers as object).length)

    await page.getByRole('link', { name: 'Indexes' }).click()
    await agrees(
      async () => ((await page.locator('.facts .lead dd').textContent()) ?? '').replace(/\.\d\d$/, ''),
      async () => {
        const { body } = await platform.own.get('/market/indexes')
        const total = (body as { data: { total_marketcap_usd: string } }).data.total_marketcap_usd
        return dollars(Number(total) * 100).replace(/\.\d\d$/, '')
      },
      'the capitalization of the market',
    )
    await page.getByRole('link', { name: 'Movers' }).click()
    await page.getByRole('button', { name: '1h' }).click()
    await page.getByRole('heading', { name: 'Movers' }).waitFor()
    await page.getByRole('link', { name: 'Arbitrage' }).click()
    await page.getByLabel('Most capital, $').fill('1')
    await eventually(async () => {
      const buys = await page.locator('tbody td:nth-child(4)').allTextContents()
      const isEmpty = await page.getByText('No pair meets these filters now.').isVisible()
      for (const buy of buys) expect(Number(/\$([\d.,]+)/.exec(buy)?.[1])).to.be.at.most(1)
      return buys.length > 0 || isEmpty
    }, 'pairs of a dollar at most')
    expect(complaints).to.deep.equal([])
  })

  it('shows a free key what it has and what it lacks, for few requests', async () => {
    const { proxy } = platform
    proxy.requests.splice(0)
    const { page, complaints } = await open('', { tier: 'free' })
    await page.getByText('Snapshot').waitFor()
    await page.getByText('The tier free shows one page of asks').waitFor()
    await page.getByRole('searchbox').fill(ITEM)
    await page.getByRole('region', { name: 'Items found' }).getByRole('link', { name: ITEM, exact: true }).click()
    await page.getByText('The tier free has no bids: they begin with the tier starter.').waitFor()
    await page.getByText('The tier free has no sales: they begin with the tier pro.').waitFor()
    await page.getByTestId('best-ask').waitFor()
    const asked = proxy.requests.filter(line => line.includes('/v1/')).map(line => line.replace(/\?.*/, ''))
    expect(asked).to.have.members([
      ...['GET /v1/providers', 'GET /v1/prices', 'GET /v1/items', 'GET /v1/items', 'GET /v1/prices'],
      'GET /v1/prices/candles',
    ])
    await agrees(
      () => page.getByTestId('best-ask').textContent(),
      async () => {
        await page.reload()
        await page.getByTestId('best-ask').waitFor()
        return dollars(await lowestAsk())
      },
      'the best ask by a free key',
    )
    await page.getByRole('button', { name: '1h' }).isDisabled()
    for (const [link, lack] of [
      ['Movers', 'movers: they begin with the tier pro'],
      ['Indexes', 'indexes: they begin with the tier quant'],
      ['Arbitrage', 'arbitrage pairs: they begin with the tier quant'],
    ] as const) {
      await page.getByRole('link', { name: link }).click()
      await page.getByText(`The tier free has no ${lack}.`).waitFor()
    }
    expect(complaints).to.deep.equal([])
  })

  it('loads its first view from this host alone, small, under a strict policy, and again by its hash', async () => {
    const { proxy } = platform
    proxy.bytes.clear()
    const { page, addresses, complaints } = await open()
    await isLive(page)
    const loaded = [...proxy.bytes].filter(([path]) => path.startsWith('/console/'))
    const bytes = loaded.reduce((sum, [, length]) => sum + length, 0)
    expect(loaded).to.have.length.above(3)
    const [test, what] = ['console', 'first view as it is sent']
    expectFigure({ test, what, value: bytes / 1024, unit: 'KiB', limit: { atMost: FIRST_VIEW_KIB_MAX } })
    for (const address of addresses) expect(address.startsWith(`${proxy.origin}/`), address).to.equal(true)
    expect(complaints).to.deep.equal([])
    const answer = await fetch(addressOf('item/5'))
    const [etag, policy] = [answer.headers.get('etag') ?? '', answer.headers.get('content-security-policy') ?? '']
    expect(answer.headers.get('cache-control')).to.equal('public, no-cache')
    expect(policy)
      .to.match(/script-src 'self';/)
      .and.not.to.match(/unsafe/)
    const again = await fetch(addressOf('item/5'), { headers: { 'if-none-match': etag } })
    expect([again.status, again.headers.get('content-security-policy')]).to.deep.equal([304, policy])
    const script = /src="([^"]+\.js)"/.exec(await answer.text())?.[1] ?? ''
    const file = await fetch(new URL(script, addressOf('item/5')))
    expect([file.status, file.headers.get('cache-control')]).to.deep.equal([200, 'public, max-age=31536000, immutable'])
  })

  it('shows a hostile name as text everywhere', async () => {
    const { proxy } = platform
    const { body } = await platform.own.get('/prices', { providers: 'provider_02', limit: 1000 })
    const rows = (body as { items: { market_hash_name: string; phase: string | null }[] }).items
    const names = rows.filter(({ phase }) => phase === null).map(one => one.market_hash_name)
    for (const [at, hostile] of HOSTILE.entries()) proxy.names.set(names[at] ?? '', hostile)
    proxy.names.set(ITEM, HOSTILE[0] ?? '')
    const { page, complaints } = await open('?sort=name')
    await isLive(page)
    for (const hostile of HOSTILE) {
      await page.getByRole('searchbox').fill(hostile.slice(0, 40))
      await eventually(
        async () => (await page.getByRole('rowheader').allTextContents()).includes(hostile),
        hostile.slice(0, 40),
      )
      expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).to.equal(true)
    }
    await page.goto(addressOf(`item/${itemId}`))
    await page.getByRole('heading', { name: HOSTILE[0] ?? '' }).waitFor()
    for (const path of ['movers?window=1h', 'arbitrage']) await page.goto(addressOf(path))
    expect(await page.locator('main img').count()).to.equal(0)
    expect(await page.title()).to.equal('marketlog console')
    expect(complaints).to.deep.equal([])
  })

  for (const colorScheme of ['light', 'dark'] as const)
    for (const width of [1400, 380])
      it(`has no violation of axe on any page: ${colorScheme}, ${width} px`, async () => {
        const { page, complaints } = await open('', { options: { colorScheme, viewport: { width, height: 900 } } })
        await isLive(page)
        await page.getByRole('rowheader').first().waitFor()
        for (const path of ['', `item/${itemId}`, 'movers?window=1h', 'indexes', 'arbitrage', 'providers', 'nowhere']) {
          await page.goto(addressOf(path))
          await page.locator('main :is(table, .centred:not(.quiet), p)').first().waitFor()
          await eventually(async () => (await page.getByText(/^Loading/).count()) === 0, `the end of loading ${path}`)
          expect(await violationsOf(page), path).to.deep.equal([])
          expect(await page.evaluate('document.documentElement.scrollWidth'), path).to.equal(width)
        }
        expect(complaints).to.deep.equal([])
      })
})
