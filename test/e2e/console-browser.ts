/** A console's platform, a browser before it, and what tests of several files look at. */
import { expect } from 'chai'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { openChromium } from '#test/harness/chromium.ts'
import { eventually } from '#test/harness/eventually.ts'
import { openWatchedPage, type WatchedPage } from '#test/harness/watched-page.ts'
import { type ConsolePlatform, openConsolePlatform } from './console-platform.ts'

export const CONSOLE_LIMIT_MS = 600_000
export const ITEM = 'AK-47 | Redline (Field-Tested)'

export const dollars = (cents: number): string =>
  new Intl.NumberFormat('en', { style: 'currency', currency: 'USD' }).format(cents / 100)

export const isLive = (page: Page) => page.locator('.badge.live', { hasText: 'Live' }).waitFor()

/** Of the board, by its item. */
export const rowOf = (page: Page, name: string) =>
  page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) })

/** Once a page and the API say the same at one moment. */
export const agrees = (shown: () => Promise<string | null>, actual: () => Promise<string>, what: string) =>
  eventually(async () => {
    const [before, text, after] = [await actual(), await shown(), await actual()]
    expect(before).to.equal(after)
    expect(text).to.equal(after)
    return true
  }, what)

/** Gives a `describe` a platform and a browser; each test has one context at a time. */
export function useConsole() {
  let platform: ConsolePlatform
  let browser: Browser
  let context: BrowserContext | undefined
  let itemId = 0

  before('a platform and a browser', async () => {
    platform = await openConsolePlatform()
    browser = await openChromium()
    const { body } = await platform.own.get('/prices', { market_hash_name: ITEM })
    itemId = body.items[0]?.item_id ?? 0
    expect(itemId).to.be.above(0)
  })
  after(async () => {
    await browser?.close()
    await platform?.close()
  })
  afterEach(async () => {
    platform.proxy.heal()
    platform.proxy.rename = undefined
    await context?.close()
    context = undefined
  })

  const addressOf = (path: string): string => `${platform.proxy.origin}/console/${path}`
  const newContext = async (options: object = {}): Promise<BrowserContext> => {
    await context?.close()
    context = await browser.newContext(options)
    return context
  }
  return {
    platform: () => platform,
    itemId: () => itemId,
    addressOf,
    newContext,
    /** A page of a new session; the key is in a link, as `make demo` prints one. */
    async open(
      path = '',
      { tier = 'quant', options = {} }: { tier?: 'free' | 'starter' | 'pro' | 'quant' | 'none'; options?: object } = {},
    ): Promise<WatchedPage> {
      const key = tier === 'none' ? '' : `#key=${platform.own.platform().keys[tier]}`
      return openWatchedPage(await newContext(options), addressOf(path) + key)
    },
    /** By the API. */
    async lowestAsk(query: object = {}): Promise<number> {
      const { body } = await platform.own.get('/prices', { item_id: itemId, ...query })
      return Math.min(...body.items.map(({ lowest_ask }: { lowest_ask: number }) => lowest_ask))
    },
  }
}
