/**
 * The console in Chromium over the whole market: its first view, and its main thread and memory while 5,000 changes a second arrive.
 *
 * A start is by a browser that has nothing of it, on a main thread that is slowed four times, at rest. The changes are those of `visibility`, and
 * all of items whose rows are on top of the board; their providers ask less than all others, so best asks move too. Tasks are
 * measured by processor time: a browser has the cores of this machine together with the whole platform. MINUTES is how long memory is watched.
 */
import { get } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import type { Browser, Page } from 'playwright-core'
import { HOUR_MS } from '#schemas/values/instant.ts'
import { buildConsole, openChromium } from '#test/harness/chromium.ts'
import type { Bench, BenchContext } from '../bench.ts'
import { type Entry, entryOf, median, requireOffered, requireSome, slope, worst } from '../entry.ts'
import { type Listing, smallKeys, whileRefreshing } from '../market-load.ts'
import type { Stage } from '../stage.ts'
import { atRest, startWholePlatform } from '../whole-platform.ts'

const PROVIDERS = 20
const ITEMS = 250
const CHANGES_PER_SECOND = 5_000
const STARTS = 5
const SLOWED = 4
const SETTLE_MS = 3_000
const WARM_UP_MS = 20_000
const TRACED_MS = 20_000
const QUICK_MS = 5_000
const MINUTES = Number(process.env.MINUTES ?? 3)
const SAMPLE_MS = 5_000
const LIVE_LIMIT_MS = 180_000
const APPLIED_LIMIT_MS = 60_000
const MIB = 2 ** 20
const VIEWPORT = { width: 1400, height: 900 }

export const consolePage: Bench = {
  name: 'console',
  ownStage: true,
  about: 'the first view of the console, and its main thread and memory at 5,000 changes a second',
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
  const address = `${baseUrl}/console/?sort=providers#key=${await stage.newKey()}`
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
  const scripts = await openScripts(browser, baseUrl)
  await scripts.close()
  requireSome('workers of the console', scripts.workers.length)
  const addresses = new Set([`${baseUrl}/console/`, ...loaded, ...scripts.workers])
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
    return { ...traced, ...(await memory(watched, page)) }
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
    entryOf('console: most memory of page and worker', 'MiB', worst(result.heap.map(([, mib]) => mib))),
    entryOf('console: growth of memory', 'MiB/h', slope(result.heap) * HOUR_MS),
  ]
}

/** Samples of a live board: milliseconds and MiB, the changes a second that it shows, and the most rows that flashed. */
async function memory({ context, browser, baseUrl }: Watched, page: Page) {
  const heap: [ms: number, mib: number][] = []
  const changes: number[] = []
  let flashes = 0
  const scripts = await openScripts(browser, baseUrl)
  const endsAt = performance.now() + (context.isQuick ? 2 * SAMPLE_MS : MINUTES * 60_000)
  while (performance.now() < endsAt) {
    context.signal.throwIfAborted()
    context.say(`memory: ${Math.ceil((endsAt - performance.now()) / 60_000)} min to go`)
    await pause(SAMPLE_MS)
    heap.push([performance.now(), await scripts.heapMib()])
    changes.push(
      Number(/([\d,]+) changes/.exec((await page.locator('.badge').textContent()) ?? '')?.[1]?.replace(',', '')),
    )
    flashes = Math.max(flashes, await page.locator('.flash.rose, .flash.fell').count())
  }
  await scripts.close()
  return { heap, changes, flashes }
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
 * `CommitLoad`: the browser has made the document, and the tool that drives it the worlds of its own scripts. Spare renderers do less than the page's.
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

/** The scripts of an origin as a browser has them now, the shared worker's among them. */
async function openScripts(browser: Browser, origin: string) {
  const session = await browser.newBrowserCDPSession()
  const { targetInfos } = await session.send('Target.getTargets')
  const targets = targetInfos.filter(
    ({ type, url }) => (type === 'page' || type === 'shared_worker') && url.startsWith(origin),
  )
  const sessions = await Promise.all(targets.map(({ targetId }) => session.send('Target.attachToTarget', { targetId })))
  let asked = 0
  const ask = (sessionId: string, method: string): Promise<{ usedSize: number; backingStorageSize: number }> => {
    const id = ++asked
    const { promise, resolve, reject } = Promise.withResolvers<{ usedSize: number; backingStorageSize: number }>()
    const take = ({ message }: { message: string }): void => {
      const answer = JSON.parse(message)
      if (answer.id !== id) return
      session.off('Target.receivedMessageFromTarget', take)
      if (answer.error) reject(new Error(`${method}: ${answer.error.message}`))
      else resolve(answer.result)
    }
    session.on('Target.receivedMessageFromTarget', take)
    session.send('Target.sendMessageToTarget', { sessionId, message: JSON.stringify({ id, method }) }).catch(reject)
    return promise
  }
  return {
    workers: targets.filter(({ type }) => type === 'shared_worker').map(({ url }) => url),
    /** Reachable after a collection of garbage, arrays of numbers included. */
    async heapMib(): Promise<number> {
      let bytes = 0
      for (const { sessionId } of sessions) {
        await ask(sessionId, 'HeapProfiler.collectGarbage')
        const { usedSize, backingStorageSize } = await ask(sessionId, 'Runtime.getHeapUsage')
        bytes += usedSize + backingStorageSize
      }
      return bytes / MIB
    },
    close: () => session.detach(),
  }
}
