/**
 * What 2,000 clients cost that lose their gateway at once and resume at another: time until all are live, connections to Kafka, memory.
 *
 * A gateway delivers a moving market and is killed; the market goes on; the second one, which is ready, sends each what it
 * has missed. Memory is the most that was seen until the last was live.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { firstItems, openMovingMarket } from '#test/fixtures/moving-market.ts'
import { watchConnections } from '#test/harness/process-figures.ts'
import { randomOf } from '#test/harness/seeded-random.ts'
import type { ResumingCrowd } from '../baselines/feed-clients.ts'
import type { Bench } from '../bench.ts'
import { type BenchPlatform, type BenchRole, makeKeys } from '../bench-platform.ts'
import { entryOf } from '../entry.ts'

const COUNT = { full: 2_000, quick: 200 }
const LIVE_LIMIT_MS = 120_000
const ITEMS = 600
/** Refreshes before the kill, and those that all have missed; sixty rows each on average. */
const REFRESHES = { before: 5, missed: 40 }
const LOOK_EVERY_MS = 100
const SEED = 1

export const feedResume: Bench = {
  name: 'feed-resume',
  about: '2,000 clients that resume at another gateway when theirs is killed',
  async run(context) {
    const count = COUNT[context.isQuick ? 'quick' : 'full']
    const platform = await context.platform()
    const clients = context.baseline('feed-clients')
    const market = await openMarket(platform)
    context.say(`making ${count} keys`)
    const keys = await makeKeys(platform, count)
    const former = await startGateway(platform, 'former')
    await clients.ask('resume', { port: former.port, keys } satisfies ResumingCrowd)
    await market.refreshes(REFRESHES.before)
    const next = await startGateway(platform, 'next')
    const before = await next.figures()
    const watch = watchConnections(next.pid, platform.config.servers.kafka)
    const ownConnections = watch.seen()
    former.kill('SIGKILL')
    await former.ended
    await market.refreshes(REFRESHES.missed)
    context.say(`${count} clients resume`)
    const startedAt = performance.now()
    const crowd: ResumingCrowd = { port: next.port, keys }
    const resuming = clients.ask<Record<string, number>>('resume', crowd)
    const peakMib = await untilLive(next, resuming, count).finally(watch.stop)
    const seconds = (performance.now() - startedAt) / 1_000
    context.log.warn({ cameBackAfter: await resuming }, 'feed-resume')
    const name = `feed, ${count} clients that resume`
    return [
      entryOf(`${name}: until all are live`, 's', seconds),
      entryOf(`${name}: connections to Kafka that they cost`, 'connections', watch.seen() - ownConnections),
      entryOf(`${name}: memory that they add`, 'MiB', peakMib - before.residentMib),
    ]
  },
}

async function startGateway(platform: BenchPlatform, name: string): Promise<BenchRole> {
  const gateway = await platform.start(`feed-${name}`, ['feed'])
  await gateway.ready()
  return gateway
}

async function openMarket(platform: BenchPlatform) {
  const kafka = platform.connect('bench')
  const items = await firstItems(kafka, ITEMS)
  const publisher = await platform.openPublisher(kafka, 'book')
  return openMovingMarket({ publisher, codec: kafka.codec, random: randomOf(SEED), items })
}

/** The most memory until every client is live. */
async function untilLive(gateway: BenchRole, resuming: Promise<unknown>, count: number): Promise<number> {
  let outcome: 'begun' | Error | undefined
  const settle = resuming.then(() => 'begun' as const).catch((error: Error) => error)
  void settle.then(result => {
    outcome = result
  })
  const limit = performance.now() + LIVE_LIMIT_MS
  let peakMib = 0
  for (;;) {
    peakMib = Math.max(peakMib, (await gateway.figures()).residentMib)
    if (outcome instanceof Error) throw outcome
    if (outcome === 'begun' && (await gateway.metric('feed_catching_up')) === 0) break
    if (performance.now() > limit) throw new Error(`not all of ${count} clients are live after ${LIVE_LIMIT_MS} ms`)
    await pause(LOOK_EVERY_MS)
  }
  const open = await gateway.metric('feed_connections')
  if (open !== count) throw new Error(`${open} of ${count} streams are open`)
  return peakMib
}
