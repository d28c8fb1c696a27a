/**
 * A page with the browser's own EventSource, whose connections end at drawn bytes: it opens a feed by a token, comes back with the id of
 * the last event that it dispatched, and has every change once.
 */
import { createServer } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import type { Browser } from 'playwright-core'
import { changesOf, type FeedMarket, momentOf, openCuts, openFeedMarket } from '#test/fixtures/cut-streams.ts'
import { openChromium } from '#test/harness/chromium.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectBalanced, openLedger } from '#test/harness/ledger.ts'
import { type Listening, listen } from '#test/harness/listen.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { openWireProxy, type WireProxy } from '#test/harness/wire-proxy.ts'

const CUTS = 30
/** A page may have six connections to a host at a time; each stream has a proxy, and so a host, of its own. */
const STREAMS = 6
const REFRESH_EVERY_MS = 100

interface PageEvent {
  event: string
  data: { seen_at: string }
}

describe('a page with EventSource', function () {
  this.timeout(300_000)
  const platform = useServers({ catalog: 'whole' })
  let browser: Browser
  let site: Listening
  let feed: FeedMarket
  const proxies: WireProxy[] = []

  before(async () => {
    site = await listen(createServer((_, response) => response.setHeader('Content-Type', 'text/html').end('<title>x')))
    browser = await openChromium()
    feed = await openFeedMarket(platform, 'a page')
  })
  after(async () => {
    await browser?.close()
    feed?.unbroken.close()
    await site.close()
    for (const proxy of proxies) await proxy.close()
  })

  it('has every change once although its connections end', async () => {
    const { market, base, unbroken } = feed
    const cuts = openCuts(market.random, CUTS)
    const page = await browser.newPage()
    await page.goto(`http://127.0.0.1:${site.port}`)
    for (let at = 0; at < STREAMS; at++) {
      const proxy = await openWireProxy()
      proxies.push(proxy)
      proxy.endWithin(() => cuts.draw(false))
      proxy.forwardTo(Number(new URL(base).port))
      const address = `http://127.0.0.1:${proxy.port}/feed/prices?resume=true&token=${await feed.tokenOf(await platform.newKey())}`
      await page.evaluate(readInPage, address)
    }
    const received = () => page.evaluate(() => globalThis.feeds)
    await eventually(async () => (await received()).every(events => events.length > 0), 'ready')
    while (!cuts.areMade()) {
      await market.refresh('ask')
      await pause(REFRESH_EVERY_MS)
    }
    const last = await feed.lastMoment()
    await eventually(async () => (await received()).every(events => momentOf(events.at(-1)) === last), 'it in the page')
    console.log(`      connections ended: ${cuts.about()}`)
    const own = (at: number) => (entry: { key: string; what: string }) => ({ ...entry, key: `${at} ${entry.key}` })
    const streams = await received()
    const expected = streams.flatMap((_, at) => changesOf(unbroken.events).map(own(at)))
    const actual = streams.flatMap((events, at) => changesOf(events).map(own(at)))
    expectBalanced({ 'streams of a page': openLedger(expected, actual, STREAMS * 500) })
  })
})

declare global {
  /** In the page: what came, by stream. */
  var feeds: PageEvent[][]
}

/** Runs in the page. */
function readInPage(address: string): void {
  globalThis.feeds ??= []
  const events: PageEvent[] = []
  globalThis.feeds.push(events)
  let id = ''
  const take = (message: Event): void => {
    const { type: event, data, lastEventId } = message as MessageEvent
    id = lastEventId
    events.push({ event, data: JSON.parse(data) })
  }
  const open = (): void => {
    const source = new EventSource(id === '' ? address : `${address}&last_event_id=${id}`)
    for (const event of ['ready', 'resync', 'prices.changed']) source.addEventListener(event, take)
    // It gives up for good where an answer ends within its headers.
    source.addEventListener('error', () => {
      if (source.readyState === source.CLOSED) open()
    })
  }
  open()
}
