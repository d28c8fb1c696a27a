/**
 * The market at full size: 41 providers x 30,000 items (1.2 million asks), loaded once for all benchmarks of a run.
 *
 * The book runs from the beginning; every other role is started by the benchmark that needs it and ends with it. Invariant:
 * when `openStage` or `comeToRest` resolves the book holds the whole market, has nothing to do, and no other role runs.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { connectKafka, type KafkaConnection } from '#infra/kafka/connection.ts'
import { openRangeReader, type RangeReader } from '#infra/kafka/range-reader.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { describeLag, openPlatformLag } from '#services/cli/lag.ts'
import { type BenchPlatform, type BenchPlatformOptions, openBenchPlatform } from './bench-platform.ts'
import { type JudgedWatch, watchJudged } from './judged-watch.ts'
import { type Listing, type MarketLoad, type MarketSize, openMarketLoad } from './market-load.ts'
import type { RoleProcess } from './role-process.ts'

export interface Stage extends BenchPlatform {
  readonly size: MarketSize
  readonly kafka: KafkaConnection
  readonly market: MarketLoad
  readonly judged: JudgedWatch
  readonly reader: RangeReader
  /** Ends every role, and starts a book that has worked for a moment: each benchmark begins with processes of one age. */
  comeToRest(): Promise<void>
  /** Some listings, counted around the end: a turn that takes the next ones reaches all of them in time. */
  someListings(from: number, count: number): Listing[]
  ends(topic: TopicKey): Promise<number[]>
  /** Resolves when a group has committed up to these ends. */
  reached(group: string, topic: TopicKey, ends: readonly number[], limitMs: number): Promise<void>
}

/** The market that all bars are about. */
export const FULL_SIZE: MarketSize = { providers: 41, items: 30_000 }
/** Enough to see that a benchmark works. */
export const QUICK_SIZE: MarketSize = { providers: 8, items: 5_000 }

/** Short, since it is part of what is measured; each check costs the broker one request. */
const LAG_POLL_MS = 25
const LOAD_LIMIT_MS = 300_000
const CATCH_UP_LIMIT_MS = 240_000
const WARM_UP = { providers: 4, share: 0.2, limitMs: 120_000 }

export interface StageOptions extends BenchPlatformOptions {
  size: MarketSize
  say(text: string): void
}

/** End offset of each partition of a topic, open transactions included. */
export const endsOf = (reader: RangeReader, kafka: KafkaConnection, topic: TopicKey): Promise<number[]> =>
  Promise.all(Array.from({ length: topics[topic].partitions }, (_, each) => reader.end(kafka.topicName(topic), each)))

export async function openStage(options: StageOptions): Promise<Stage> {
  const { log, say, size } = options
  say('setting a namespace up')
  const platform = await openBenchPlatform(options)
  const closers: (() => Promise<void>)[] = [() => platform.close()]
  const close = async (): Promise<void> => {
    for (const closer of closers.splice(0).reverse()) await closer()
  }
  try {
    const kafka = connectKafka({ config: platform.config, role: 'bench', log })
    const names = Object.values(topics).map(topic => kafka.namespace + topic.name)
    const reader = await openRangeReader(kafka, names)
    closers.push(() => reader.close())
    const look = await openPlatformLag(platform.config, log)
    closers.push(() => look.close())
    const market = await openMarketLoad(kafka, size)
    closers.push(() => market.close())
    const judged = await watchJudged(kafka)
    closers.push(() => judged.close())
    await market.publishRates()
    await platform.role('book')
    const total = (size.providers * size.items).toLocaleString('en')
    say(`loading the market: ${size.providers} providers, ${total} asks`)
    const { refreshes } = await market.publish(market.listings, 1)
    say('waiting for the book')
    await judged.applied(refreshes, LOAD_LIMIT_MS)
    const someListings = (from: number, count: number): Listing[] => {
      const { listings } = market
      return Array.from({ length: Math.min(count, listings.length) }, (_, each) => (from + each) % listings.length)
        .map(at => listings[at])
        .filter(listing => listing !== undefined)
    }
    return {
      ...platform,
      size,
      kafka,
      market,
      judged,
      reader,
      close,
      someListings,
      async comeToRest() {
        await platform.stopAll()
        await platform.role('book')
        const warmUp = await market.publish(someListings(0, WARM_UP.providers), WARM_UP.share)
        await judged.applied(warmUp.refreshes, WARM_UP.limitMs)
      },
      ends: topic => endsOf(reader, kafka, topic),
      reached: async (group, topic, ends, limitMs) => {
        const target = new Map([[topic, [...ends]]])
        const limit = performance.now() + limitMs
        for (;;) {
          const lags = await look.read([{ group, topic }], target)
          if (lags.every(({ lag }) => lag === 0)) return
          if (performance.now() > limit) throw new Error(`${group} is not at the end of ${topic}: ${describeLag(lags)}`)
          await pause(LAG_POLL_MS)
        }
      },
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** Starts the query service over the whole market, and what it rests on, or hands over the one that runs; `env` is for one that starts. */
export async function serveApi(
  stage: Stage,
  say: (text: string) => void,
  env: Record<string, string> = {},
): Promise<RoleProcess> {
  await stage.role('fx')
  await stage.role('live-view')
  say('the live view is catching up')
  await stage.reached('live-view', 'bookChanges', await stage.ends('bookChanges'), CATCH_UP_LIMIT_MS)
  const api = await stage.role('api', env)
  await api.ready()
  return api
}
