/**
 * The console as a person uses it, in Chromium against a platform that `marketlog up` has started: what the board shows is what the API says at
 * that moment, through cuts and restarts, with any tier's key; nothing leaves the host, and no key is in an address, a log or a store that lasts.
 */
import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { openWatchedPage } from '#test/harness/chromium.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectFigure } from '#test/harness/ledger.ts'
import { agrees, CONSOLE_LIMIT_MS, dollars, ITEM, isLive, rowOf, useConsole } from './console-browser.ts'

const FIRST_VIEW_KIB_MAX = 350

/** In the page: what it has in its stores, with what of its caches holds a key. */
const KEPT = `(async () => {
  const cached = await Promise.all((await caches.keys()).map(async name => {
    const cache = await caches.open(name)
    const texts = await Promise.all((await cache.matchAll()).map(answer => answer.text()))
    return [...(await cache.keys()).map(({ url, headers }) => url + [...headers]), ...texts]
  }))
  const databases = await indexedDB.databases()
  return [{ ...sessionStorage }, { ...localStorage }, document.cookie, cached.flat().filter(text => text.includes('sk_')), databases.length]
})()`

describe('the console in a browser', function () {
  this.timeout(CONSOLE_LIMIT_MS)
  const browser = useConsole()
  const boardAgrees = (page: Page) =>
    agrees(
      () => rowOf(page, ITEM).getByRole('cell').first().textContent(),
      async () => dollars(await browser.lowestAsk()),
      'the best ask of the board',
    )

  it('asks for a key, and shows the board live by it, kept in the session alone', async () => {
    const { page, complaints } = await browser.open('', { tier: 'none' })
    const { quant } = browser.platform().own.platform().keys
    await page.getByLabel('Your key').fill(quant)
    await page.getByRole('button', { name: 'Show the market' }).click()
    await isLive(page)
    await page.getByRole('searchbox').fill('ak-47 redline ft')
    await boardAgrees(page)
    expect(await page.evaluate(KEPT)).to.deep.equal([{ 'marketlog-key': quant }, {}, '', [], 0])
    await page.reload()
    await isLive(page)
    expect(browser.platform().proxy.requests.filter(line => line.includes(quant))).to.deep.equal([])
    expect(browser.platform().logsWith(quant)).to.deep.equal([])
    expect(complaints).to.deep.equal([])
    await page.getByRole('button', { name: 'Forget key' }).click()
    await page.getByLabel('Your key').waitFor()
    expect(await page.evaluate('sessionStorage.length')).to.equal(0)
    await eventually(() => browser.platform().proxy.openFeeds() === 0, 'the end of the feed')
  })

  it('is entered by the link that a start prints, which leaves no key in the address', async () => {
    const link = /http:\S+\/console\/#key=\S+/.exec(browser.platform().printed)?.[0] ?? ''
    const { page } = await openWatchedPage(await browser.newContext(), link)
    await isLive(page)
    expect(page.url()).to.equal(link.slice(0, link.indexOf('#')))
    expect(await page.evaluate('history.length')).to.be.at.most(2)
  })

  it('shares one feed and one key among tabs, until the last is closed', async () => {
    const { page } = await browser.open()
    await isLive(page)
    const other = await page.context().newPage()
    await other.goto(browser.addressOf(''))
    await isLive(other)
    await page.close()
    await other.getByRole('searchbox').fill(ITEM)
    await boardAgrees(other)
    expect(browser.platform().proxy.openFeeds()).to.equal(1)
    await other.close()
    await eventually(() => browser.platform().proxy.openFeeds() === 0, 'the end of the feed')
  })

  it('finds, filters and sorts, and says so in its address, which shows the same to who gets it', async () => {
    const { page } = await browser.open()
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
      const prices = await asks()
      expect(prices).to.deep.equal(prices.toSorted((a, b) => a - b))
      return true
    }, 'the order')
    const { page: linked } = await openWatchedPage(page.context(), page.url())
    await eventually(
      async () => (await names(linked)).length === (await names(page)).length,
      'the same rows by the link',
    )
  })

  it('says nothing of a market that it is loading (it said that no item meets a search, and "152 of 0 items")', async () => {
    const { page } = await browser.open('providers')
    await page.addInitScript({
      content: `globalThis.falsehoods = []
        const look = () => falsehoods.push(...(document.body?.innerText.match(/No item meets|[\\d,]+ of 0 items/g) ?? []))
        new MutationObserver(look).observe(document, { childList: true, characterData: true, subtree: true })`,
    })
    for (let start = 0; start < 5; start++) {
      await page.goto(browser.addressOf('?sort=ask'))
      await isLive(page)
      await page.getByRole('rowheader').first().waitFor()
      expect(await page.evaluate('falsehoods')).to.deep.equal([])
    }
  })

  it('goes on after its feed was cut, and after the server was killed, with what the API says then', async () => {
    const { page } = await browser.open(`?q=${encodeURIComponent(ITEM)}`)
    await isLive(page)
    browser.platform().proxy.cut()
    await page.getByText('Interrupted').waitFor()
    browser.platform().proxy.requests.splice(0)
    browser.platform().proxy.heal()
    await isLive(page)
    expect(browser.platform().proxy.requests.find(line => line.includes('/feed/prices'))).to.match(/last_event_id=/)
    await boardAgrees(page)
    process.kill(browser.platform().own.platform().services.api?.pid ?? 0, 'SIGKILL')
    await page.getByText('Interrupted').waitFor()
    await isLive(page)
    await boardAgrees(page)
  })

  it('says why a key is refused, and keeps it nowhere', async () => {
    const { page } = await browser.open('', { tier: 'none' })
    await page.getByLabel('Your key').fill('sk_live_root_unknown')
    await page.getByRole('button', { name: 'Show the market' }).click()
    expect(await page.getByRole('alert').textContent()).to.match(/^The key was refused: .*key/i)
    expect(await page.evaluate('sessionStorage.length')).to.equal(0)
    await page.getByLabel('Your key').fill(browser.platform().own.platform().keys.quant)
    await page.getByRole('button', { name: 'Show the market' }).click()
    await isLive(page)
  })

  it('shows a free key what it has and what it lacks, for few requests', async () => {
    const { proxy } = browser.platform()
    proxy.requests.splice(0)
    const { page, complaints } = await browser.open('', { tier: 'free' })
    await page.getByText('Snapshot').waitFor()
    await page.getByText('The tier free shows one page of asks').waitFor()
    await page.getByRole('searchbox').fill(ITEM)
    await page.getByRole('region', { name: 'Items found' }).getByRole('link', { name: ITEM, exact: true }).click()
    await page.getByText('The tier free has no bids: they begin with the tier starter.').waitFor()
    await page.getByText('The tier free has no sales: they begin with the tier pro.').waitFor()
    await page.getByTestId('best-ask').waitFor()
    const calls = proxy.requests.filter(line => line.includes('/v1/')).map(line => line.replace(/\?.*/, ''))
    expect(calls).to.have.members([
      ...['GET /v1/providers', 'GET /v1/prices', 'GET /v1/items', 'GET /v1/items', 'GET /v1/prices'],
      'GET /v1/prices/candles',
    ])
    await agrees(
      () => page.getByTestId('best-ask').textContent(),
      async () => {
        await page.reload()
        await page.getByTestId('best-ask').waitFor()
        return dollars(await browser.lowestAsk())
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
    const { proxy } = browser.platform()
    proxy.bytes.clear()
    const { page, addresses, complaints } = await browser.open()
    await isLive(page)
    const loaded = [...proxy.bytes].filter(([path]) => path.startsWith('/console/'))
    const bytes = loaded.reduce((sum, [, length]) => sum + length, 0)
    expect(loaded).to.have.length.above(3)
    const [test, what] = ['console', 'first view as it is sent']
    expectFigure({ test, what, value: bytes / 1024, unit: 'KiB', limit: { atMost: FIRST_VIEW_KIB_MAX } })
    for (const address of addresses) expect(address.startsWith(`${proxy.origin}/`), address).to.equal(true)
    expect(complaints).to.deep.equal([])
    const answer = await fetch(browser.addressOf('item/5'))
    const [etag, policy] = [answer.headers.get('etag') ?? '', answer.headers.get('content-security-policy') ?? '']
    expect(answer.headers.get('cache-control')).to.equal('public, no-cache')
    expect(policy)
      .to.match(/script-src 'self';/)
      .and.not.to.match(/unsafe/)
    const again = await fetch(browser.addressOf('item/5'), { headers: { 'if-none-match': etag } })
    expect([again.status, again.headers.get('content-security-policy')]).to.deep.equal([304, policy])
    const script = /src="([^"]+\.js)"/.exec(await answer.text())?.[1] ?? ''
    const file = await fetch(new URL(script, browser.addressOf('item/5')))
    expect([file.status, file.headers.get('cache-control')]).to.deep.equal([200, 'public, max-age=31536000, immutable'])
  })
})
