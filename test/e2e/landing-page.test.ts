/** The landing page in a browser: a recorded sample until a key is pasted, then the prices of the platform, by its feed or by asking. */
import { expect } from 'chai'
import type { Browser, Page } from 'playwright-core'
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import { openChromium, openWatchedPage } from '#test/harness/chromium.ts'
import { eventually } from '#test/harness/eventually.ts'
import { bookChangeRecord, changed, marked, markerRecords } from '#test/harness/published-records.ts'
import { useServers } from '#test/harness/use-servers.ts'

const ITEM = 'AK-47 | Redline (Field-Tested)'
const MOMENT = 1_772_573_670_000
const SAMPLE = '$43.58'

describe('the landing page in a browser', () => {
  const platform = useServers()
  let browser: Browser
  let base: string
  let reader: string
  let publish: (provider: string, price: number) => Promise<void>

  before(async () => {
    browser = await openChromium()
    const kafka = platform.connect()
    const publisher = await platform.openPublisher(kafka, 'book')
    const catalog = await openCatalogReader(kafka)
    const item_id = catalog.items().find(item => item.market_hash_name === ITEM)?.item_id ?? 0
    await catalog.close()
    const listed = new Set<string>()
    let turn = 0
    publish = async (provider, price) => {
      turn += 1
      const about = { side: 'ask' as const, provider, refresh_id: `r${turn}`, seen_at: MOMENT + turn * 1_000 }
      const change = listed.has(provider) ? 'updated' : 'added'
      listed.add(provider)
      const row = changed({ ...about, item_id, change, quantity: turn, price, price_micro_usd: price * 10_000 })
      const marker = marked({ ...about, last_updated: about.seen_at })
      await publisher.send([bookChangeRecord(kafka.codec, row), ...markerRecords(kafka.codec, marker)])
    }
    const roles = await platform.startRoles(['live-view', 'provider-health', 'api', 'feed'])
    await roles.ready()
    base = roles.baseUrl
    reader = await platform.newKey('quant')
    await publish('provider_01', 4_510)
    await publish('provider_03', 4_490)
    await lists(4_490)
  })
  after(() => browser?.close())

  /** Resolves when the API lists an ask. */
  const lists = (price: number) =>
    eventually(async () => {
      const address = `${base}/prices?${new URLSearchParams({ market_hash_name: ITEM })}`
      const answer = await fetch(address, { headers: { authorization: `Bearer ${reader}` } })
      const { items } = (await answer.json()) as { items: { lowest_ask: number }[] }
      return items.some(({ lowest_ask }) => lowest_ask === price)
    }, `an ask of ${price}`)

  const openPage = () => openWatchedPage(browser, `${base}/`)
  const pasteKey = async (page: Page, key: string): Promise<void> => {
    await page.getByLabel('Your key').fill(key)
    await page.getByRole('button', { name: 'Show live' }).click()
  }
  const shows = (page: Page, badge: string, amount: string) =>
    eventually(async () => {
      const [text, price] = [await page.locator('#badge').textContent(), await page.locator('#amount').textContent()]
      expect([text, price]).to.deep.equal([badge, amount])
      return true
    }, `${badge} ${amount}`)

  it('shows a sample, labelled so, then what the feed brings to a key whose tier has feeds, until the key is forgotten', async () => {
    const { page, addresses, complaints } = await openPage()
    await shows(page, 'Recorded sample', SAMPLE)
    const key = await platform.newKey('quant')
    await pasteKey(page, key)
    await shows(page, 'Live', '$44.90')
    expect(await page.getByRole('cell', { name: '$45.10' }).count()).to.equal(1)
    await publish('provider_01', 4_275)
    await shows(page, 'Live', '$42.75')
    await page.reload()
    await shows(page, 'Live', '$42.75')
    expect(addresses.filter(address => address.includes(key) || !address.startsWith(`${base}/`))).to.deep.equal([])
    expect(complaints).to.deep.equal([])
    await page.getByRole('button', { name: 'Forget the key' }).click()
    await shows(page, 'Recorded sample', SAMPLE)
    expect(await page.evaluate('sessionStorage.length + localStorage.length + document.cookie.length')).to.equal(0)
    await page.close()
  })

  it('asks once a minute by a key without feeds, and says what is left of it', async () => {
    const { page, addresses, complaints } = await openPage()
    await publish('provider_01', 4_300)
    await lists(4_300)
    await pasteKey(page, await platform.newKey('free'))
    await shows(page, 'Every minute', '$43.00')
    expect(await page.getByRole('status').textContent()).to.match(/tier free .* 998 requests are left this month/)
    expect(addresses.filter(address => address.includes('/feed/'))).to.deep.equal([])
    expect(complaints).to.deep.equal([])
    await page.close()
  })

  it('says why a key is refused, and keeps neither the key nor its prices', async () => {
    const { page } = await openPage()
    await pasteKey(page, 'sk_live_root_unknown')
    const status = page.getByRole('status')
    await eventually(
      async () => /key/i.test((await status.textContent()) ?? '') && page.locator('#connect').isVisible(),
      'the refusal',
    )
    await shows(page, 'Recorded sample', SAMPLE)
    expect(await status.textContent()).to.match(/Not live/)
    expect(await page.evaluate('sessionStorage.length')).to.equal(0)
    await page.close()
  })
})
