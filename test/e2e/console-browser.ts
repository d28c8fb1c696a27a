/**
 * A browser before the console of a platform with a small, moving market, and what tests of several files look at.
 *
 * A proxy between them is the origin of the pages, their worker's requests included, which a browser's tools do not show. It knows what a
 * browser asks and cuts it off, counts bytes as they are sent, and names items otherwise in whatever passes.
 */
import { globSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect } from 'chai'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { buildConsole, openChromium, openWatchedPage, type WatchedPage } from '#test/harness/chromium.ts'
import { eventually } from '#test/harness/eventually.ts'
import { listen } from '#test/harness/listen.ts'
import { writeRoomyTiers } from '#test/harness/roomy-tiers.ts'
import { prepareOwnPlatform } from './own-platform.ts'

const REPOSITORY = new URL('../../', import.meta.url).pathname
const ITEMS = 300
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
    // A start does not wait for what is computed of views.
    await eventually(
      async () => (await platform.own.get(`/market/items/${itemId}`)).status === 200,
      'the market summary',
    )
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

type ConsolePlatform = Awaited<ReturnType<typeof openConsolePlatform>>

async function openConsolePlatform() {
  await buildConsole()
  const own = await prepareOwnPlatform('empty')
  const tiersFolder = mkdtempSync(join(tmpdir(), 'marketlog-tiers-'))
  const { code, stdout, stderr } = await own.up(market(), { MARKETLOG_TIERS: writeRoomyTiers(tiersFolder) })
  expect(code, stderr).to.equal(0)
  const proxy = await openBrowserProxy(own.port)
  return {
    own,
    printed: stdout,
    proxy,
    /** Paths of logs that hold a text. */
    logsWith(text: string): string[] {
      const files = globSync(join(own.runDir, 'logs/**')).filter(path => statSync(path).isFile())
      expect(files).to.have.length.above(0)
      return files.filter(path => readFileSync(path).includes(text))
    },
    async close(): Promise<void> {
      await proxy.close()
      await own.remove()
      rmSync(tiersFolder, { recursive: true, force: true })
    },
  }
}

/** Moves every two seconds; has bids above asks, sales and a day of the past. */
function market(): object {
  const feed = { connector: 'simulated', interval_ms: 2_000 }
  const options = { coverage: 1, churn: 0.2 }
  const asks = ['provider_02', 'provider_03', 'provider_05', 'provider_12'].map((provider, at) => ({
    ...feed,
    provider,
    side: 'ask',
    options: { ...options, factor: 0.95 + at / 20 },
  }))
  const bids = ['provider_02', 'provider_12'].map(provider => ({
    ...feed,
    provider,
    side: 'bid',
    options: { ...options, factor: 1.15, spread: 0.06 },
  }))
  const sales = { ...feed, provider: 'provider_02', side: 'sale', options: { coverage: 1, per_day: 20_000 } }
  return {
    name: 'small',
    seed: 7,
    items: ITEMS,
    backfill: { days: 1, refreshes_per_day: 6 },
    base: join(REPOSITORY, 'infra/config/markets/best-known.json.gz'),
    feeds: [...asks, ...bids, sales],
  }
}

interface BrowserProxy {
  readonly origin: string
  /** `METHOD /target` of every request so far. */
  readonly requests: string[]
  /** Bytes of bodies by path, as they were sent. */
  readonly bytes: Map<string, number>
  /** By what an item is called instead; undefined where all have their names. */
  rename: ((name: string) => string) | undefined
  /** Feeds that are open now. */
  openFeeds(): number
  /** Ends what is open and refuses what comes. */
  cut(): void
  heal(): void
  close(): Promise<void>
}

async function openBrowserProxy(target: number): Promise<BrowserProxy> {
  const requests: string[] = []
  const bytes = new Map<string, number>()
  const feeds = new Set<IncomingMessage>()
  let isCut = false
  const server = createServer((incoming, outgoing) => {
    const { method = '', url = '' } = incoming
    if (isCut) return void incoming.socket.destroy()
    requests.push(`${method} ${url}`)
    const { rename } = proxy
    const headers = { ...incoming.headers, ...(rename && { 'accept-encoding': 'identity' }) }
    const passed = request({ host: '127.0.0.1', port: target, path: url, method, headers }, answer => {
      const { pathname } = new URL(url, 'http://host')
      if (pathname.includes('/feed/')) {
        feeds.add(answer)
        answer.once('close', () => feeds.delete(answer))
      }
      answer.on('data', (chunk: Buffer) => bytes.set(pathname, (bytes.get(pathname) ?? 0) + chunk.length))
      pass(answer, outgoing, rename)
    })
    passed.on('error', () => outgoing.destroy())
    outgoing.on('close', () => passed.destroy())
    incoming.pipe(passed)
  })
  const { port, close } = await listen(server)
  const proxy: BrowserProxy = {
    origin: `http://127.0.0.1:${port}`,
    requests,
    bytes,
    rename: undefined,
    close,
    openFeeds: () => feeds.size,
    cut() {
      isCut = true
      server.closeAllConnections()
    },
    heal() {
      isCut = false
    },
  }
  return proxy
}

const NAMED = /"market_hash_name":("(?:[^"\\]|\\.)*")/g

/** An answer as it is, or line by line with other names. */
function pass(answer: IncomingMessage, outgoing: ServerResponse, rename: BrowserProxy['rename']): void {
  const { 'content-length': _, ...headers } = answer.headers
  outgoing.writeHead(answer.statusCode ?? 502, rename ? headers : answer.headers)
  answer.on('error', () => outgoing.destroy())
  if (!rename) return void answer.pipe(outgoing)
  const renamed = (line: string): string =>
    line.replaceAll(NAMED, (_, name) => `"market_hash_name":${JSON.stringify(rename(JSON.parse(name)))}`)
  createInterface({ input: answer })
    .on('line', line => outgoing.write(`${renamed(line)}\n`))
    .on('close', () => outgoing.end())
    .on('error', () => outgoing.destroy())
}
