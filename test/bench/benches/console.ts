/**
 * The console in Chromium over the whole market: its first view, and its main thread while 5,000 changes a second arrive.
 *
 * A start is by a browser that has nothing of it, on a main thread that is slowed four times, at rest. The changes are those of `visibility`, and
 * all of items whose rows are on top of the board; their providers ask less than all others, so best asks move too. Tasks are
 * measured by processor time: a browser has the cores of this machine together with the whole platform.
 */
import { get } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import type { Browser, Page } from 'playwright-core'
import { buildConsole } from '#test/harness/build-console.ts'
import { openChromium } from '#test/harness/chromium.ts'
import { newKey } from '../account-keys.ts'
import type { Bench, BenchContext } from '../bench.ts'
import { type Entry, entryOf } from '../entry.ts'
import type { Listing } from '../market-load.ts'
import { requireOffered, requireSome } from '../requirements.ts'
import { standingPlatform } from '../settled.ts'
import { smallKeys, whileRefreshing } from '../small-providers.ts'
import type { Stage } from '../stage.ts'
import { median, worst } from '../statistics.ts'
import { startWholePlatform } from '../whole-platform.ts'

const PROVIDERS = 20
const ITEMS = 250
const CHANGES_PER_SECOND = 5_000
const STARTS = 5
const SLOWED = 4
const SETTLE_MS = 3_000
const WARM_UP_MS = 20_000
const TRACED_MS = 20_000
const QUICK_MS = 5_000
const SAMPLES = 4
const SAMPLE_MS = 5_000
const LIVE_LIMIT_MS = 180_000
const APPLIED_LIMIT_MS = 60_000
const VIEWPORT = { width: 1400, height: 900 }

export const consolePage: Bench = {
  name: 'console',
  ownStage: true,
  about: 'the first view of the console, and its main thread at 5,000 changes a second',
  async run(context) {
    await buildConsole()
    const stage = await context.stage()
    const keys = smallKeys(PROVIDERS)
    const baseUrl = await startWholePlatform(context, stage, keys)
    const listings = stage.market.smallListings(keys, ITEMS).map(cheaper)
    const { refreshes } = await stage.market.publish(listings, 1)
    await stage.judged.applied(refreshes, APPLIED_LIMIT_MS)
    await standingPlatform(context, stage)
    const browser = await openChromium()
    try {
      const watched = { context, stage, browser, baseUrl, listings }
      return [...(await starts(watched)), ...(await liveBoard(watched))]
    } finally {
      await browser.close()
    }
  },
}

interface Watched {
  context: BenchContext
  stage: Stage
  browser: Browser
  baseUrl: string
  listings: readonly Listing[]
}

/** Below what any other provider asks, in yuan too. */
function cheaper(listing: Listing): Listing {
  const firstPrices = listing.firstPrices.map(price => Math.ceil(price / 10))
  return { ...listing, firstPrices, prices: [...firstPrices] }
}

/** Opens the board in a context of its own, where nothing is cached. */
async function openBoard({ stage, browser, baseUrl }: Watched, slowed = 1) {
  const opened = await browser.newContext({ viewport: VIEWPORT })
  const page = await opened.newPage()
  await (await opened.newCDPSession(page)).send('Emulation.setCPUThrottlingRate', { rate: slowed })
  const address = `${baseUrl}/console/?sort=providers#key=${await newKey(stage)}`
  return { page, address, close: () => opened.close() }
}

async function starts(watched: Watched): Promise<Entry[]> {
  const { context, browser, baseUrl } = watched
  const [firstRowMs, longestMs, bytes]: [number[], number[], number[]] = [[], [], []]
  const count = context.isQuick ? 1 : STARTS
  for (let start = 1; start <= count; start++) {
    context.signal.throwIfAborted()
    context.say(`start ${start} of ${count}`)
    const { page, address, close } = await openBoard(watched, SLOWED)
    const traced = await mainThreadDuring(browser, page, async () => {
      const startedAt = performance.now()
      await page.goto(address)
      await page.getByRole('rowheader').first().waitFor({ timeout: LIVE_LIMIT_MS })
      firstRowMs.push(performance.now() - startedAt)
      await pause(SETTLE_MS)
    })
    longestMs.push(traced.longestMs)
    bytes.push(await firstViewBytes(browser, page, baseUrl))
    await close()
  }
  return [
    entryOf('console: first view as it is sent', 'KiB', median(bytes) / 1_024),
    entryOf('console: first row by a processor four times slower', 'ms', firstRowMs),
    entryOf('console: longest task of a start', 'ms', longestMs),
  ]
}

/** The page, what it has loaded from /console, and its worker, which no page sees. */
async function firstViewBytes(browser: Browser, page: Page, baseUrl: string): Promise<number> {
  const loaded = await page.evaluate<string[]>('performance.getEntriesByType("resource").map(({ name }) => name)')
  const session = await browser.newBrowserCDPSession()
  const { targetInfos } = await session.send('Target.getTargets')
  await session.detach()
  const workers = targetInfos.flatMap(({ type, url }) =>
    type === 'shared_worker' && url.startsWith(baseUrl) ? [url] : [],
  )
  requireSome('workers of the console', workers.length)
  const addresses = new Set([`${baseUrl}/console/`, ...loaded, ...workers])
  const files = [...addresses].filter(address => address.startsWith(`${baseUrl}/console/`))
  return (await Promise.all(files.map(bytesOf))).reduce((sum, bytes) => sum + bytes, 0)
}

/** Of a body as it is sent to a browser. */
const bytesOf = (address: string): Promise<number> =>
  new Promise((resolve, reject) => {
    get(address, { headers: { 'accept-encoding': 'gzip, br' } }, answer => {
      let bytes = 0
      answer.on('data', (chunk: Buffer) => {
        bytes += chunk.length
      })
      answer.on('error', reject).on('end', () => resolve(bytes))
    }).on('error', reject)
  })

async function liveBoard(watched: Watched): Promise<Entry[]> {
  const { context, stage, browser, listings } = watched
  context.say('the board is loading')
  const { page, address, close } = await openBoard(watched)
  await page.goto(address)
  await page.locator('.badge.live').waitFor({ timeout: LIVE_LIMIT_MS })
  const pace = { listings, everyMs: (ITEMS * 1_000) / CHANGES_PER_SECOND, share: 1 }
  const { result, published, offered } = await whileRefreshing(stage, pace, async () => {
    await pause(context.isQuick ? QUICK_MS : WARM_UP_MS)
    context.say(`the main thread at ${CHANGES_PER_SECOND} changes a second`)
    const traced = await mainThreadDuring(browser, page, () => pause(context.isQuick ? QUICK_MS : TRACED_MS))
    return { ...traced, ...(await shown(context, page)) }
  })
  await close()
  if (!context.isQuick) {
    requireOffered('refreshes', published, offered)
    requireOffered('changes on the page', median(result.changes), CHANGES_PER_SECOND)
  }
  requireSome('rows that flash', result.flashes)
  return [
    entryOf('console: longest task at 5,000 changes a second', 'ms', result.longestMs),
    entryOf('console: main thread at 5,000 changes a second', 'of a core', result.share),
  ]
}

/** The changes a second that a live board says it shows, sample by sample, and the most rows that flashed. */
async function shown({ isQuick, signal }: BenchContext, page: Page) {
  const changes: number[] = []
  let flashes = 0
  for (let sample = 0; sample < (isQuick ? 2 : SAMPLES); sample++) {
    signal.throwIfAborted()
    await pause(SAMPLE_MS)
    const badge = (await page.locator('.badge').textContent()) ?? ''
    changes.push(Number(/([\d,]+) changes/.exec(badge)?.[1]?.replace(',', '')))
    flashes = Math.max(flashes, await page.locator('.flash.rose, .flash.fell').count())
  }
  return { changes, flashes }
}

interface TraceEvent {
  name: string
  pid: number
  tid: number
  /** Microseconds. */
  ts: number
  args: { name?: string }
  /** Microseconds of its thread's processor time. */
  tdur?: number
}

/**
 * The longest task of a page's main thread while work is done, in milliseconds, and the share of the time that its tasks take.
 *
 * Both are processor time of the thread, which nothing else on the same cores lengthens. Where a page is opened, its tasks begin with its document.
 * The browser's spare renderers do less than the page's. `CommitLoad`: the browser has made the document, and the tool that drives it the worlds
 * of its own scripts.
 */
async function mainThreadDuring(browser: Browser, page: Page, work: () => Promise<void>) {
  await browser.startTracing(page, { categories: ['devtools.timeline', 'disabled-by-default-devtools.timeline'] })
  const startedAt = performance.now()
  await work()
  const ms = performance.now() - startedAt
  const { traceEvents }: { traceEvents: TraceEvent[] } = JSON.parse(String(await browser.stopTracing()))
  const threadOf = ({ pid, tid }: TraceEvent): string => `${pid} ${tid}`
  const mains = new Set(
    traceEvents.filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain').map(threadOf),
  )
  const begin = worst([0, ...traceEvents.filter(({ name }) => name === 'CommitLoad').map(({ ts }) => ts)])
  const tasks = traceEvents.filter(event => event.name === 'RunTask' && event.ts > begin && mains.has(threadOf(event)))
  const threads = [...Map.groupBy(tasks, threadOf).values()].map(events => {
    const times = events.map(({ tdur = 0 }) => tdur / 1_000)
    return { longestMs: worst(times), share: times.reduce((sum, time) => sum + time, 0) / ms }
  })
  const [busiest] = threads.toSorted((a, b) => b.share - a.share)
  if (!busiest) throw new Error('the trace has no task of a page')
  return busiest
}
