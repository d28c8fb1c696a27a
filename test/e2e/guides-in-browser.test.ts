/**
 * The landing page, the guides and the reference in a browser: nothing of them comes from another host, they can be read in light and dark,
 * on wide and narrow screens, and links into the reference lead to their operation.
 */
import { expect } from 'chai'
import type { Browser } from 'playwright-core'
import { guideNames } from '#test/fixtures/guide-snippets.ts'
import { PINNED } from '#test/fixtures/pinned-operations.ts'
import { FAINT_TEXTS, openChromium, openWatchedPage } from '#test/harness/chromium.ts'
import { eventually } from '#test/harness/eventually.ts'
import { writeRoomyTiers } from '#test/harness/roomy-tiers.ts'
import { useServers } from '#test/harness/use-servers.ts'

const PAGES = ['', ...guideNames().map(name => (name === 'overview' ? 'docs' : `docs/${name}`))]
const HEIGHT = 900
/** Of the vendor of the reference. */
const VENDOR = /scalar|ask ai|\bshare\b|\bdeploy\b|\bmcp\b|powered by/i

/** The last operation of each group, as llms.txt links it. */
const LINKED = [...Map.groupBy(operationsWithTags(), ({ tag }) => tag).values()].flatMap(members =>
  members.slice(-1).map(({ anchor }) => anchor),
)

function operationsWithTags(): { tag: string; anchor: string }[] {
  return Object.entries(PINNED.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      const [tag = ''] = (operation as unknown as { tags: string[] }).tags
      const anchor = `tag/${tag.toLowerCase().replaceAll(' ', '-')}/${method.toUpperCase()}${path}`
      return { tag, anchor }
    }),
  )
}

describe('the documents in a browser', function () {
  this.timeout(300_000)
  const platform = useServers()
  let browser: Browser
  let base: string
  before(async () => {
    browser = await openChromium()
    const roles = await platform.startRoles(['api'], { tiersFile: writeRoomyTiers(platform.config.stateDir) })
    await roles.ready()
    base = roles.baseUrl
  })
  after(() => browser?.close())

  for (const colorScheme of ['light', 'dark'] as const)
    for (const width of [1400, 380])
      it(`show every page without an error and from this host alone: ${colorScheme}, ${width} px`, async () => {
        const ground = colorScheme === 'light' ? 'rgb(246, 247, 245)' : 'rgb(16, 21, 19)'
        for (const path of PAGES) {
          const options = { colorScheme, viewport: { width, height: HEIGHT } }
          const { page, addresses, complaints } = await openWatchedPage(browser, `${base}/${path}`, options)
          expect(await page.evaluate('document.documentElement.scrollWidth'), path).to.equal(width)
          expect(await page.evaluate(FAINT_TEXTS), path).to.deep.equal([])
          expect(await page.evaluate('getComputedStyle(document.body).backgroundColor'), path).to.equal(ground)
          expect(new Set(addresses).size, path).to.be.within(5, 6)
          for (const address of addresses) expect(address.startsWith(`${base}/`), address).to.equal(true)
          expect(complaints, path).to.deep.equal([])
          await page.close()
        }
      })

  for (const colorScheme of ['light', 'dark'] as const)
    it(`show the reference without its vendor, from this host alone: ${colorScheme}`, async () => {
      const options = { colorScheme, viewport: { width: 1400, height: HEIGHT } }
      const { page, addresses, complaints } = await openWatchedPage(browser, `${base}/docs/reference`, options)
      await page.getByText('Current lowest ask per provider and item').first().waitFor()
      expect(await page.getByText(VENDOR).filter({ visible: true }).allTextContents()).to.deep.equal([])
      for (const address of addresses) expect(address.startsWith(`${base}/`), address).to.equal(true)
      expect(complaints).to.deep.equal([])
      await page.close()
    })

  it('lead to the operation that a link names, links of before too', async () => {
    const { page } = await openWatchedPage(browser, 'about:blank', { viewport: { width: 1400, height: HEIGHT } })
    expect(LINKED).to.have.length.above(10)
    for (const anchor of LINKED)
      for (const path of anchor === LINKED[0] ? ['docs', 'docs/reference'] : ['docs/reference']) {
        await page.goto('about:blank')
        await page.goto(`${base}/${path}#${anchor}`)
        const place = page.locator(`[id$="/${anchor}"]`)
        await eventually(async () => {
          const top = (await place.first().boundingBox())?.y
          return top !== undefined && top > -HEIGHT / 2 && top < HEIGHT / 2
        }, `${path}#${anchor} to be seen`)
        expect(page.url()).to.equal(`${base}/docs/reference#${anchor}`)
      }
    await page.close()
  })

  it('find a heading by its words, and fold their contents on a phone', async () => {
    const { page } = await openWatchedPage(browser, `${base}/docs`, { viewport: { width: 380, height: HEIGHT } })
    await page.getByLabel('Search the guides').fill('verify webhooks')
    await page.keyboard.press('Enter')
    await page.waitForURL(/\/docs\/webhooks#verify-it/)
    expect(await page.getByText('On this page').isVisible()).to.equal(true)
    expect(await page.locator('.contents a').first().isVisible()).to.equal(false)
    await page.getByText('On this page').click()
    expect(await page.locator('.contents a').first().isVisible()).to.equal(true)
    await page.close()
  })

  it('copy code, but not what programs print', async () => {
    const context = await browser.newContext({ permissions: ['clipboard-read', 'clipboard-write'] })
    const page = await context.newPage()
    await page.goto(`${base}/docs/quick-start`)
    const code = await page.locator('.code code').nth(1).textContent()
    await page.locator('.code').nth(1).hover()
    await page.getByRole('button', { name: 'Copy' }).nth(1).click()
    await page.getByRole('button', { name: 'Copied' }).waitFor()
    expect(await page.evaluate('navigator.clipboard.readText()')).to.equal(code)
    expect(await page.locator('.copy').count()).to.be.below(await page.locator('pre').count())
    await context.close()
  })
})
