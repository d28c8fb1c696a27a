/**
 * The console in Chromium over the whole market: its first view, and its main thread while 5,000 changes a second arrive.
 *
 * The changes are those of `visibility`, and all of items whose rows are on top of the board; their providers ask less than all others, so
 * best asks move too. Tasks are measured by processor time: a browser has the cores of this machine together with the whole platform.
 */
import { get } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import type { Browser, Page } from 'playwright-core'
import { buildConsole, openChromium } from '#test/harness/chromium.ts'
import type { Bench, BenchContext } from '../bench.ts'
import { type Entry, entryOf, median, requireOffered, requireSome, worst } from '../entry.ts'
import { type Listing, smallKeys, whileRefreshing } from '../market-load.ts'
import type { Stage } from '../stage.ts'
import { atRest, startWholePlatform } from '../whole-platform.ts'

const PROVIDERS = 20
const ITEMS = 250
const CHANGES_PER_SECOND = 5_000
const WARM_UP_MS = 20_000
const TRACED_MS = 20_000
const QUICK_MS = 5_000
/** At the rate that the page shows. */
const [LOOKS, LOOK_EVERY_MS] = [9, 2_000]
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
    await atRest(context, stage)
    const browser = await openChromium()
    try {
      return await liveBoard(context, stage, await browser.newPage({ viewport: VIEWPORT }), { baseUrl, listings })
    } finally {
      await browser.close()
    }
  },
}

/** Below what any other provider asks, in yuan too. */
function cheaper(listing: Listing): Listing {
  const firstPrices = listing.firstPrices.map(price => Math.ceil(price / 10))
  return { ...listing, firstPrices, prices: [...firstPrices] }
}

/** The page, what it has loaded from /console, and its worker, which no page sees. */
async function firstViewBytes(page: Page, baseUrl: string): Promise<number> {
  const loaded = await page.evaluate<string[]>('performance.getEntriesByType("resource").map(({ name }) => name)')
  const session = await browserOf(page).newBrowserCDPSession()
  const { targetInfos } = await session.send('Target.getTargets')
  await session.detach()
  const workers = targetInfos.filter(({ type, url }) => type === 'shared_worker' && url.startsWith(baseUrl))
  requireSome('workers of the console', workers.length)
  const addresses = new Set([`${baseUrl}/console/`, ...loaded, ...workers.map(({ url }) => url)])
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

const browserOf = (page: Page) => page.context().browser() as Browser

async function liveBoard(
  context: BenchContext,
  stage: Stage,
  page: Page,
  { baseUrl, listings }: { baseUrl: string; listings: readonly Listing[] },
): Promise<Entry[]> {
  context.say('the board is loading')
  await page.goto(`${baseUrl}/console/?sort=providers#key=${await stage.newKey()}`)
  await page.locator('.badge.live').waitFor({ timeout: LIVE_LIMIT_MS })
  const bytes = await firstViewBytes(page, baseUrl)
  const pace = { listings, everyMs: (ITEMS * 1_000) / CHANGES_PER_SECOND, share: 1 }
  const { result, published, offered } = await whileRefreshing(stage, pace, async () => {
    await pause(context.isQuick ? QUICK_MS : WARM_UP_MS)
    context.say(`the main thread at ${CHANGES_PER_SECOND} changes a second`)
    const traced = await mainThreadDuring(page, () => pause(context.isQuick ? QUICK_MS : TRACED_MS))
    await page.locator('.flash.rose, .flash.fell').first().waitFor({ timeout: LIVE_LIMIT_MS })
    const changes: number[] = []
    for (let look = 0; look < LOOKS; look++) {
      await pause(LOOK_EVERY_MS)
      const badge = (await page.locator('.badge').textContent()) ?? ''
      changes.push(Number(/([\d,]+) changes/.exec(badge)?.[1]?.replace(',', '')))
    }
    return { ...traced, changes }
  })
  if (!context.isQuick) {
    requireOffered('refreshes', published, offered)
    requireOffered('changes on the page', median(result.changes), CHANGES_PER_SECOND)
  }
  return [
    entryOf('console: first view as it is sent', 'KiB', bytes / 1_024),
    entryOf('console: longest task at 5,000 changes a second', 'ms', result.longestMs),
    entryOf('console: main thread at 5,000 changes a second', 'of a core', result.share),
  ]
}

interface TraceEvent {
  name: string
  pid: number
  tid: number
  args: { name?: string }
  /** Microseconds of its thread's processor time. */
  tdur?: number
}

/**
 * The longest task of a page's main thread while work is done, in milliseconds, and the share of the time that its tasks take.
 *
 * Both are processor time of the thread, which nothing else on the same cores lengthens. Spare renderers do less than the page's.
 */
async function mainThreadDuring(page: Page, work: () => Promise<void>) {
  const browser = browserOf(page)
  await browser.startTracing(page, { categories: ['devtools.timeline', 'disabled-by-default-devtools.timeline'] })
  const startedAt = performance.now()
  await work()
  const ms = performance.now() - startedAt
  const { traceEvents }: { traceEvents: TraceEvent[] } = JSON.parse(String(await browser.stopTracing()))
  const threadOf = ({ pid, tid }: TraceEvent): string => `${pid} ${tid}`
  const mains = new Set(
    traceEvents.filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain').map(threadOf),
  )
  const tasks = traceEvents.filter(event => event.name === 'RunTask' && mains.has(threadOf(event)))
  const threads = [...Map.groupBy(tasks, threadOf).values()].map(events => {
    const times = events.map(({ tdur = 0 }) => tdur / 1_000)
    return { longestMs: worst(times), share: times.reduce((sum, time) => sum + time, 0) / ms }
  })
  const [busiest] = threads.toSorted((a, b) => b.share - a.share)
  if (!busiest) throw new Error('the trace has no task of a page')
  return busiest
}
