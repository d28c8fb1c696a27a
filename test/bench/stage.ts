/**
 * The market at full size, loaded once for all benchmarks of a run. Invariant: when `openStage` or `comeToRest` resolves the book holds the
 * whole market, has nothing to do, and no other role runs.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { follow } from '#infra/kafka/follower.ts'
import { openRangeReader, type RangeReader } from '#infra/kafka/range-reader.ts'
import type { ServerAddresses } from '#infra/runtime/config.ts'
import type { RefreshJudged } from '#schemas/events/refresh-judged.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { describeLag } from '#services/cli/lag.ts'
import { within } from '#test/harness/eventually.ts'
import { type BenchPlatform, openBenchPlatform } from './bench-platform.ts'
import { type Listing, type MarketSize, openMarketLoad } from './market-load.ts'

export type Stage = Awaited<ReturnType<typeof loadStage>>

/** The market that all bars are about. */
const FULL_SIZE: MarketSize = { providers: 41, items: 30_000 }
/** Enough to see that a benchmark works. */
const QUICK_SIZE: MarketSize = { providers: 8, items: 5_000 }

/** Short, since it is part of what is measured; each check costs the broker one request. */
const LAG_POLL_MS = 25
const JUDGED_POLL_MS = 20
const LOAD_LIMIT_MS = 300_000
const CATCH_UP_LIMIT_MS = 300_000
const WARM_UP = { providers: 4, share: 0.2, limitMs: 120_000 }

/** End offset of each partition of a topic, open transactions included. */
export const endsOf = (reader: RangeReader, kafka: KafkaConnection, topic: TopicKey): Promise<number[]> =>
  Promise.all(Array.from({ length: topics[topic].partitions }, (_, each) => reader.end(kafka.topicName(topic), each)))

export async function openStage(
  addresses: ServerAddresses,
  { isQuick, say }: { isQuick: boolean; say(text: string): void },
): Promise<Stage> {
  say('setting a namespace up')
  const platform = await openBenchPlatform(addresses)
  try {
    return await loadStage(platform, isQuick ? QUICK_SIZE : FULL_SIZE, say)
  } catch (error) {
    await platform.close()
    throw error
  }
}

async function loadStage(platform: BenchPlatform, size: MarketSize, say: (text: string) => void) {
  const closed = <T extends { close(): Promise<void> }>(one: T): T => {
    platform.keep({ stop: () => one.close() })
    return one
  }
  const kafka = platform.connect('bench')
  const names = Object.values(topics).map(topic => kafka.namespace + topic.name)
  const reader = closed(await openRangeReader(kafka, names))
  const look = await platform.openLagReader()
  const market = closed(await openMarketLoad(kafka, size))
  const judged = closed(await watchJudged(kafka))
  await market.publishRates()
  await platform.role('book')
  const { listings } = market
  say(`loading the market: ${size.providers} providers, ${(size.providers * size.items).toLocaleString('en')} asks`)
  const { refreshes } = await market.publish(listings, 1)
  say('waiting for the book')
  await judged.applied(refreshes, LOAD_LIMIT_MS)
  const someListings = (from: number, count: number): Listing[] =>
    Array.from({ length: Math.min(count, listings.length) }, (_, each) => (from + each) % listings.length).flatMap(
      at => listings[at] ?? [],
    )
  const ends = (topic: TopicKey): Promise<number[]> => endsOf(reader, kafka, topic)
  const reached = async (group: string, topic: TopicKey, wanted: readonly number[], limitMs: number): Promise<void> => {
    const target = new Map([[topic, [...wanted]]])
    const limit = performance.now() + limitMs
    for (;;) {
      const lags = await look.read([{ group, topic }], target)
      if (lags.every(({ lag }) => lag === 0)) return
      if (performance.now() > limit) throw new Error(`${group} is not at the end of ${topic}: ${describeLag(lags)}`)
      await pause(LAG_POLL_MS)
    }
  }
  return Object.assign(platform, {
    size,
    kafka,
    market,
    judged,
    reader,
    ends,
    /** Some listings, counted around the end: a turn that takes the next ones reaches all of them in time. */
    someListings,
    reached,
    /** Resolves when groups have read all changes that there are now. */
    async caughtUp(groups: readonly string[], limitMs = CATCH_UP_LIMIT_MS) {
      for (const group of groups) await reached(group, 'bookChanges', await ends('bookChanges'), limitMs)
    },
    /** Starts a book that has worked for a moment, and nothing else: each benchmark begins with processes of one age. */
    async comeToRest() {
      await platform.stop()
      await platform.role('book')
      const warmUp = await market.publish(someListings(0, WARM_UP.providers), WARM_UP.share)
      await judged.applied(warmUp.refreshes, WARM_UP.limitMs)
    },
  })
}

export type JudgedWatch = Awaited<ReturnType<typeof watchJudged>>

/**
 * Watches the book's verdicts from the log's start on. A refresh that was not applied as a whole fails who waits for it, so no figure is
 * based on refreshes that the book refused.
 */
export async function watchJudged(kafka: KafkaConnection) {
  const stop = new AbortController()
  const verdicts = new Map<string, RefreshJudged>()
  let arrived = Promise.withResolvers<void>()
  const following = await follow(kafka, 'refreshes', {
    from: 'start',
    signal: stop.signal,
    waitMs: JUDGED_POLL_MS,
    async onRecords(records) {
      for (const { value } of records) {
        if (value === null) continue
        const judged = kafka.codec.decode(value).value as RefreshJudged
        verdicts.set(`${judged.provider}|${judged.refresh_id}`, judged)
      }
      arrived.resolve()
      arrived = Promise.withResolvers()
    },
  })
  const all = async (refreshes: readonly string[]): Promise<void> => {
    for (const refresh of refreshes) {
      while (!verdicts.has(refresh) && !stop.signal.aborted) await Promise.race([arrived.promise, following.closed])
      const { verdict, reason } = verdicts.get(refresh) ?? {}
      if (verdict !== 'applied') throw new Error(`the refresh ${refresh} was ${verdict} (${reason})`)
    }
  }
  return {
    /** Resolves when all of these refreshes (`provider|refresh_id`) are applied. */
    applied: (refreshes: readonly string[], limitMs: number): Promise<void> =>
      within(all(refreshes), `${refreshes.length} refreshes to be judged`, limitMs),
    async close(): Promise<void> {
      stop.abort()
      arrived.resolve()
      await following.closed.catch(() => undefined)
    },
  }
}
