/**
 * From an observation to the clients' eyes, at 5,000 observations a second on top of the whole market.
 *
 * 20 providers of 250 items refresh once a second each, 50 ms apart; every price moves every time, so all 5,000
 * are changes. Roles share processes as `make up` arranges them. REST: one price of each refresh is asked for
 * until it shows. Feed: every change counts. The clock starts at the time that the observation carries,
 * before it is published. It is measured on a running platform: the roles have started a moment before on an empty
 * Redis, and while the live view made its eight first snapshots of 150,000 lines each, half of REST took 4 to 12 s.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { GROUPS } from '#services/cli/roles.ts'
import { eventually } from '#test/harness/eventually.ts'
import { newKey } from '../account-keys.ts'
import type { Bench, BenchContext, Entry } from '../bench.ts'
import { figureEntry } from '../entry.ts'
import type { Listing } from '../market-load.ts'
import { requireOffered, requireSome } from '../requirements.ts'
import type { RoleProcess } from '../role-process.ts'
import { standingPlatform } from '../settled.ts'
import { smallKeys, writeProviders } from '../small-providers.ts'
import type { Stage } from '../stage.ts'
import { percentile } from '../statistics.ts'
import { untilVisible, watchFeed } from '../visibility-watch.ts'

const PROVIDERS = 20
const ITEMS = 250
const OBSERVATIONS_PER_SECOND = 5_000
const SECONDS = 20
/** Broker and roles compile what they run for so long, on two cores that also have to run it. */
const WARM_UP_SECONDS = 40
const QUICK_SECONDS = 5
const SHOW_LIMIT_MS = 30_000
const CATCH_UP_LIMIT_MS = 300_000

/** Seconds from observation to visible. */
export const visibility: Bench = {
  name: 'visibility',
  ownStage: true,
  about: 'seconds from observation to visible in REST and on the feed, at 5,000 observations a second',
  async run(context) {
    const stage = await context.stage()
    const keys = smallKeys(PROVIDERS)
    const baseUrl = await startPlatform(context, stage, keys)
    const key = await newKey(stage)
    const listings = stage.market.smallListings(keys, ITEMS)
    const { refreshes } = await stage.market.publish(listings, 1)
    await stage.judged.applied(refreshes, SHOW_LIMIT_MS)
    await standingPlatform(context, stage)
    context.say('warming up')
    await run(stage, { baseUrl, key, listings, seconds: context.isQuick ? QUICK_SECONDS : WARM_UP_SECONDS })
    const seconds = context.isQuick ? QUICK_SECONDS : SECONDS
    context.say(`${seconds} s of ${OBSERVATIONS_PER_SECOND} observations a second`)
    const seen = await run(stage, { baseUrl, key, listings, seconds })
    if (!context.isQuick) requireOffered('observations a second', seen.observationsPerSecond, OBSERVATIONS_PER_SECOND)
    requireSome('changes on the feed', seen.changesOnFeed)
    return entriesOf(seen)
  },
}

/** What a run saw. */
interface Seen {
  observationsPerSecond: number
  restMs: number[]
  feedMs: readonly number[]
  /** Those of {@link feedMs} that arrived. */
  changesOnFeed: number
}

function entriesOf({ observationsPerSecond, restMs, feedMs }: Seen): Entry[] {
  const seconds = (name: string, ms: readonly number[], share: number): Entry =>
    figureEntry({ name: `observation to visible ${name}`, unit: 's', better: 'lower' }, percentile(ms, share) / 1000)
  return [
    figureEntry(
      { name: 'observations published while visibility was measured', unit: '1/s', better: null },
      observationsPerSecond,
    ),
    seconds('in REST: p50', restMs, 0.5),
    seconds('in REST: p99', restMs, 0.99),
    seconds('on the feed: p50', feedMs, 0.5),
    seconds('on the feed: p99', feedMs, 0.99),
  ]
}

/** Starts all roles but ingest, whose place this benchmark takes; resolves with the API's address. */
async function startPlatform(context: BenchContext, stage: Stage, keys: readonly string[]): Promise<string> {
  await stage.stopAll()
  const env = { MARKETLOG_PROVIDERS: writeProviders(stage, keys) }
  const started: RoleProcess[] = []
  let baseUrl = ''
  for (const { name, roles } of GROUPS) {
    if (roles.includes('ingest')) continue
    context.say(`starting ${roles.join(', ')}`)
    const process = await stage.start(name, roles, env)
    started.push(process)
    if (roles.includes('api')) baseUrl = process.baseUrl
  }
  // Only now: a view that is computed of others is ready when they are, and theirs may be a process that starts later.
  for (const process of started) await process.ready(CATCH_UP_LIMIT_MS)
  for (const group of ['live-view', 'history', 'candles']) {
    context.say(`${group} is catching up`)
    await stage.reached(group, 'bookChanges', await stage.ends('bookChanges'), CATCH_UP_LIMIT_MS)
  }
  return baseUrl
}

async function run(
  stage: Stage,
  { baseUrl, key, listings, seconds }: { baseUrl: string; key: string; listings: readonly Listing[]; seconds: number },
): Promise<Seen> {
  const feed = await watchFeed(
    baseUrl,
    key,
    listings.map(({ provider }) => provider),
  )
  const { itemIds } = stage.market
  const refreshesPerSecond = OBSERVATIONS_PER_SECOND / ITEMS
  const count = refreshesPerSecond * seconds
  const probes: Promise<number>[] = []
  const published: Promise<unknown>[] = []
  const startedAt = performance.now()
  for (let refresh = 0; refresh < count; refresh++) {
    await pause(Math.max(0, startedAt + (refresh * 1000) / refreshesPerSecond - performance.now()))
    const listing = listings[refresh % listings.length]
    if (listing === undefined) break
    published.push(handled(stage.market.publish([listing], 1)))
    const probe = { provider: listing.provider, itemId: itemIds[refresh % ITEMS] ?? 0, observedAt: listing.observedAt }
    probes.push(handled(untilVisible(baseUrl, key, probe, SHOW_LIMIT_MS)))
  }
  await Promise.all(published)
  const observationsPerSecond = (count * ITEMS * 1000) / (performance.now() - startedAt)
  stage.log.info({ behind: await stage.lags() }, 'the last refresh was acknowledged')
  const restMs = await Promise.all(probes)
  await eventually(() => feed.latenciesMs.length >= count * ITEMS, 'every change on the feed').catch((error: Error) =>
    stage.log.warn({ error }, 'changes are missing on the feed'),
  )
  feed.close()
  const missing = Array.from({ length: count * ITEMS - feed.latenciesMs.length }, () => SHOW_LIMIT_MS)
  const changesOnFeed = feed.latenciesMs.length
  return { observationsPerSecond, restMs, feedMs: [...feed.latenciesMs, ...missing], changesOnFeed }
}

/** The same promise, whose failure may be looked at later. */
function handled<T>(work: Promise<T>): Promise<T> {
  work.catch(() => undefined)
  return work
}
