/**
 * Each page of the console in Chromium, against a platform that `marketlog up` has started: its values are the API's at that moment, no name is
 * more than text, and axe finds nothing.
 */
import axe from 'axe-core'
import { expect } from 'chai'
import type { Page } from 'playwright-core'
import { eventually } from '#test/harness/eventually.ts'
import { agrees, CONSOLE_LIMIT_MS, dollars, ITEM, isLive, rowOf, useConsole } from './console-browser.ts'

const HOSTILE = [
  `<img src=x onerror="document.title='run'">`,
  `\u202Eelitsoh \u2066right to left\u2069`,
  `long ${'x'.repeat(9_990)} name`,
]

const violationsOf = async (page: Page): Promise<string[]> => {
  // By the protocol, which no policy of the page concerns.
  await page.evaluate(axe.source)
  const findings = await page.evaluate<{ violations: { id: string; nodes: { html: string }[] }[] }>('axe.run()')
  return findings.violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).join(' ')}`)
}

describe('pages of the console', function () {
  this.timeout(CONSOLE_LIMIT_MS)
  const browser = useConsole()

  it('shows an item as the API has it: asks, bids, candles, sales, in any currency', async () => {
    const { page, complaints } = await browser.open(`?q=${encodeURIComponent(ITEM)}`)
    await rowOf(page, ITEM).getByRole('link').click()
    await page.getByRole('heading', { name: ITEM }).waitFor()
    const ladder = async (side: string) =>
      (await page.getByRole('region', { name: side, exact: true }).locator('td.price').allTextContents()).join()
    await agrees(
      () => ladder('Asks'),
      async () => {
        const { body } = await browser.platform().own.get('/prices', { item_id: browser.itemId() })
        const asks = (body as { items: { lowest_ask: number }[] }).items.map(({ lowest_ask }) => lowest_ask)
        return asks
          .toSorted((a, b) => a - b)
          .map(dollars)
          .join()
      },
      'the ladder of asks',
    )
    const { body: sold } = await browser.platform().own.get('/sales', { item_id: browser.itemId() })
    const prices = (sold as { items: { price: number }[] }).items.map(({ price }) => dollars(price))
    expect(prices).to.have.length.above(0)
    await page.getByRole('region', { name: 'Latest sales' }).waitFor()
    const shownSales = await page.getByRole('region', { name: 'Latest sales' }).locator('td.number').allTextContents()
    expect(prices).to.include.members(shownSales.filter(text => text.startsWith('$')))
    const chart = page.locator('[data-last-close]').first()
    await agrees(
      () => chart.getAttribute('data-last-close'),
      async () => String(await browser.lowestAsk()),
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
        return dollars(await browser.lowestAsk({ currency: 'EUR' })).replace('$', '€')
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
    const { page, complaints } = await browser.open('providers')
    /** Cells of the first rows of a table; the page reads it again, since it shows what it has read a moment ago. */
    const cellsOf = async (table: string, columns: readonly number[]): Promise<string> => {
      await page.reload()
      const rows = page.getByRole('region', { name: table, exact: true }).locator('tbody tr')
      await rows.first().waitFor()
      const cells = await rows.evaluateAll(all => all.map(row => [...row.children].map(cell => cell.textContent ?? '')))
      return JSON.stringify(cells.slice(0, 5).map(row => columns.map(column => row[column])))
    }
    const apiRows = async <Row>(path: string, rowsOf: (body: Row) => string[][], query = {}): Promise<string> => {
      const { body } = await browser.platform().own.get(path, query)
      const rows = rowsOf(body)
      expect(rows).to.have.length.above(0)
      return JSON.stringify(rows.slice(0, 5))
    }
    const usd = (text: string): string => dollars(Number(text) * 100)

    type Provider = { fees: { sell_fee: number }; health: { unique_items: number; market_coverage: number } }
    const providersOf = (body: Record<string, Provider>) =>
      Object.entries(body).map(([name, { fees, health }]) => [
        ...[name, `${health.market_coverage.toFixed(1)} %`, String(health.unique_items)],
        fees.sell_fee === null ? '–' : `${Number((fees.sell_fee * 100).toFixed(2))} %`,
      ])
    await agrees(
      () => cellsOf('Providers', [0, 3, 4, 8]),
      () => apiRows('/providers', providersOf),
      'the providers',
    )
    const { body: providers } = await browser.platform().own.get('/providers')
    expect(await page.locator('tbody tr').count()).to.equal(Object.keys(providers).length)

    await page.getByRole('link', { name: 'Indexes' }).click()
    await agrees(
      async () => ((await page.locator('.facts .lead dd').textContent()) ?? '').replace(/\.\d\d$/, ''),
      async () => {
        const { body } = await browser.platform().own.get('/market/indexes')
        const total = (body as { data: { total_marketcap_usd: string } }).data.total_marketcap_usd
        return usd(total).replace(/\.\d\d$/, '')
      },
      'the capitalization of the market',
    )
    await page.getByRole('link', { name: 'Movers' }).click()
    await page.getByRole('button', { name: '1h' }).click()
    type Named = { market_hash_name: string; phase: string | null }
    const nameOf = ({ market_hash_name, phase }: Named): string => market_hash_name + (phase ?? '')
    type Mover = Named & { change_pct: number; best_ask_usd: string }
    await agrees(
      () => cellsOf('Items that went up', [0, 2]),
      () =>
        apiRows(
          '/market/movers',
          ({ data }: { data: Mover[] }) =>
            data.filter(({ change_pct }) => change_pct > 0).map(mover => [nameOf(mover), usd(mover.best_ask_usd)]),
          { window: '1h', limit: 100 },
        ),
      'what rose most',
    )
    await page.getByRole('link', { name: 'Arbitrage' }).click()
    type Pair = Named & { net_profit_usd: string; quantity: number }
    const pairsOf = ({ data }: { data: { items: Pair[] } }) =>
      data.items.map(pair => [nameOf(pair), usd(pair.net_profit_usd), String(pair.quantity)])
    await agrees(
      () => cellsOf('Pairs', [0, 1, 6]),
      () => apiRows('/market/arbitrage', pairsOf, { limit: 1_000 }),
      'the pairs',
    )
    const legs = (column: number) => page.locator(`tbody td:nth-child(${column})`).allTextContents()
    await page.getByLabel('Highest fee, %').fill('2')
    await eventually(async () => {
      const sells = await legs(5)
      for (const sell of sells) expect(sell).to.include('Meridian Market')
      return sells.length > 0
    }, 'pairs that sell where the fee is 2 %')
    await page.getByLabel('Most capital, $').fill('1')
    await eventually(async () => {
      const buys = await legs(4)
      for (const buy of buys) expect(Number(/\$([\d.,]+)/.exec(buy)?.[1])).to.be.at.most(1)
      return buys.length > 0 || (await page.getByText('No pair meets these filters now.').isVisible())
    }, 'pairs of a dollar at most')
    expect(new URL(page.url()).search).to.equal('?fee=2&capital=1')
    expect(complaints).to.deep.equal([])
  })

  it('shows a hostile name as text on every page', async () => {
    browser.platform().proxy.rename = name => HOSTILE[name.length % HOSTILE.length] as string
    const { page, complaints } = await browser.open('?sort=name')
    await isLive(page)
    /** Once a page shows all three, and nothing else, in its links. */
    const showsHostile = (links: string) =>
      eventually(async () => {
        const names = new Set(await page.locator(links).allTextContents())
        expect([...names].map(name => name.slice(0, 40)).toSorted()).to.deep.equal(
          HOSTILE.map(name => name.slice(0, 40)).toSorted(),
        )
        return true
      }, `hostile names on ${page.url()}`)
    const isHarmless = async () => {
      expect(await page.locator('main img').count()).to.equal(0)
      expect(await page.title()).to.equal('marketlog console')
      expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).to.equal(true)
    }
    for (const hostile of HOSTILE) {
      await page.getByRole('searchbox').fill(hostile.slice(0, 40))
      await eventually(
        async () => (await page.getByRole('rowheader').allTextContents()).includes(hostile),
        hostile.slice(0, 40),
      )
      await isHarmless()
    }
    await page.goto(browser.addressOf(`item/${browser.itemId()}`))
    await page.getByRole('heading', { name: HOSTILE[ITEM.length % HOSTILE.length] as string }).waitFor()
    await isHarmless()
    for (const path of ['movers?window=1h', 'arbitrage']) {
      await page.goto(browser.addressOf(path))
      await showsHostile('tbody a')
      await isHarmless()
    }
    expect(complaints).to.deep.equal([])
    const free = await browser.open('?q=ak-47', { tier: 'free' })
    await free.page.getByRole('region', { name: 'Items found' }).getByRole('link').first().waitFor()
    for (const name of await free.page.locator('tbody a').allTextContents()) expect(name).to.be.oneOf(HOSTILE)
    expect(free.complaints).to.deep.equal([])
  })

  for (const colorScheme of ['light', 'dark'] as const)
    for (const width of [1400, 380])
      it(`has no violation of axe on any page: ${colorScheme}, ${width} px`, async () => {
        const { page, complaints } = await browser.open('', {
          options: { colorScheme, viewport: { width, height: 900 } },
        })
        await isLive(page)
        await page.getByRole('rowheader').first().waitFor()
        for (const path of [
          '',
          `item/${browser.itemId()}`,
          'movers?window=1h',
          'indexes',
          'arbitrage',
          'providers',
          'nowhere',
        ]) {
          await page.goto(browser.addressOf(path))
          await page.locator('main :is(table, .centred:not(.quiet), p)').first().waitFor()
          await eventually(async () => (await page.getByText(/^Loading/).count()) === 0, `the end of loading ${path}`)
          expect(await violationsOf(page), path).to.deep.equal([])
          expect(await page.evaluate('document.documentElement.scrollWidth'), path).to.equal(width)
        }
        expect(complaints).to.deep.equal([])
      })
})
