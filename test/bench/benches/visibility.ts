/**
 * From an observation to the clients' eyes, at 5,000 observations a second on top of the whole market: 20 providers of 250 items refresh once
 * a second each, and every price moves every time.
 *
 * REST: one price of each refresh is asked for until it shows. Feed: every change counts, one that never came as long as the limit. The clock
 * starts at the time that the observation carries, before it is published. The platform is at rest before: while the live view made its first
 * snapshots, half of REST took 4 to 12 s.
 */
import { get } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { eventually } from '#test/harness/eventually.ts'
import type { Bench } from '../bench.ts'
import { askAs } from '../bench-platform.ts'
import { entryOf, percentile, requireOffered, requireSome } from '../entry.ts'
import { type Listing, smallKeys, whileRefreshing } from '../market-load.ts'
import type { Stage } from '../stage.ts'
import { atRest, startWholePlatform } from '../whole-platform.ts'

const PROVIDERS = 20
const ITEMS = 250
const OBSERVATIONS_PER_SECOND = 5_000
const SECONDS = 20
/** Broker and roles compile what they run for so long, on two cores that also have to run it. */
const WARM_UP_SECONDS = 40
const QUICK_SECONDS = 5
const SHOW_LIMIT_MS = 30_000
/** Adds at most so much. Twenty probes begin each second: at 5 ms, half a second to wait makes 2,000 requests a second. */
const POLL_MS = 25

export const visibility: Bench = {
  name: 'visibility',
  ownStage: true,
  about: 'seconds from observation to visible in REST and on the feed, at 5,000 observations a second',
  async run(context) {
    const stage = await context.stage()
    const keys = smallKeys(PROVIDERS)
    const baseUrl = await startWholePlatform(context, stage, keys)
    const key = await stage.newKey()
    const listings = stage.market.smallListings(keys, ITEMS)
    const { refreshes } = await stage.market.publish(listings, 1)
    await stage.judged.applied(refreshes, SHOW_LIMIT_MS)
    await atRest(context, stage)
    context.say('warming up')
    const watched = { baseUrl, key, listings }
    await run(stage, { ...watched, seconds: context.isQuick ? QUICK_SECONDS : WARM_UP_SECONDS })
    const seconds = context.isQuick ? QUICK_SECONDS : SECONDS
    context.say(`${seconds} s of ${OBSERVATIONS_PER_SECOND} observations a second`)
    const seen = await run(stage, { ...watched, seconds })
    if (!context.isQuick) requireOffered('refreshes', seen.published, seen.offered)
    requireSome('changes on the feed', seen.changesOnFeed)
    return [
      entryOf('observation to visible in REST: p99', 's', percentile(seen.restMs, 0.99) / 1_000),
      entryOf('observation to visible on the feed: p99', 's', percentile(seen.feedMs, 0.99) / 1_000),
    ]
  },
}

interface Watched {
  baseUrl: string
  key: string
  listings: readonly Listing[]
}

async function run(stage: Stage, { seconds, ...watched }: Watched & { seconds: number }) {
  const { listings } = watched
  const feed = await watchFeed(watched)
  const probes: Promise<number>[] = []
  const everyMs = (ITEMS * 1_000) / OBSERVATIONS_PER_SECOND
  const onRefresh = ({ provider, observedAt }: Listing, refresh: number): void => {
    const itemId = stage.market.itemIds[refresh % ITEMS] ?? 0
    const probe = untilVisible(watched, { provider, itemId, observedAt })
    // It is waited for below.
    probe.catch(() => undefined)
    probes.push(probe)
  }
  const pace = { listings, everyMs, share: 1, onRefresh }
  const { published, offered, refreshes } = await whileRefreshing(stage, pace, () => pause(seconds * 1_000))
  const restMs = await Promise.all(probes)
  const due = refreshes.length * ITEMS
  await eventually(() => feed.latenciesMs.length >= due, 'every change on the feed').catch((error: Error) =>
    stage.log.warn({ error }, 'changes are missing on the feed'),
  )
  feed.close()
  const changesOnFeed = feed.latenciesMs.length
  const missing = Array.from({ length: Math.max(0, due - changesOnFeed) }, () => SHOW_LIMIT_MS)
  return { published, offered, restMs, feedMs: [...feed.latenciesMs, ...missing], changesOnFeed }
}

const FRAME_END = '\n\n'

/** Listens to the feed of prices; resolves when it says that it is ready. Each change counts with the time of its arrival. */
async function watchFeed({ baseUrl, key, listings }: Watched) {
  const providers = new Set(listings.map(({ provider }) => provider))
  const latenciesMs: number[] = []
  const { promise: ready, resolve, reject } = Promise.withResolvers<void>()
  const take = (frame: string, now: number): void => {
    const event = /^event: (.*)$/m.exec(frame)?.[1]
    if (event === 'ready') resolve()
    if (event !== 'prices.changed') return
    const { provider, seen_at, items } = JSON.parse(/^data: (.*)$/m.exec(frame)?.[1] ?? '')
    if (!providers.has(provider)) return
    for (const _ of items) latenciesMs.push(now - Date.parse(seen_at))
  }
  const headers = { authorization: `Bearer ${key}`, accept: 'text/event-stream' }
  const request = get(`${baseUrl}/feed/prices`, { headers, agent: false }, response => {
    if (response.statusCode !== 200) reject(new Error(`the feed answered ${response.statusCode}`))
    let text = ''
    response.setEncoding('utf8').on('data', (chunk: string) => {
      const now = Date.now()
      const frames = (text + chunk).split(FRAME_END)
      text = frames.pop() ?? ''
      for (const frame of frames) take(frame, now)
    })
  }).on('error', reject)
  await ready
  return { latenciesMs, close: () => void request.destroy() }
}

/** Asks until the row shows the observation, or the limit is over; resolves with milliseconds from observation to then. */
async function untilVisible(
  { baseUrl, key }: Watched,
  probe: { provider: string; itemId: number; observedAt: number },
): Promise<number> {
  const url = `${baseUrl}/prices?item_id=${probe.itemId}&providers=${probe.provider}`
  for (;;) {
    const text = await askAs(key, url)
    const waitedMs = Date.now() - probe.observedAt
    const [row] = (JSON.parse(text) as { items: { timestamp: string }[] }).items
    if (waitedMs > SHOW_LIMIT_MS || Date.parse(row?.timestamp ?? '') >= probe.observedAt) return waitedMs
    await pause(POLL_MS)
  }
}
