/**
 * Publishes a scripted market in waves, feeds mixed as they are in the log, until told to end.
 *
 * Writes market.quotes and market.bids. Invariant: each feed's refreshes stand in the log in the order in
 * which they were told, and the log holds all of them when `end` resolves; no more than a bounded number of
 * records wait for the book, so that a slow machine slows the market down.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Codec } from '#infra/kafka/codec.ts'
import type { Outgoing, Publisher } from '#infra/kafka/publisher.ts'
import type { SeededRandom } from '#test/harness/seeded-random.ts'
import { recordsOf } from './market-records.ts'
import type { Feed, ScriptedRefresh } from './scripted-market.ts'

/** What a load works with. */
export interface LoadOptions {
  feeds: readonly Feed[]
  random: SeededRandom
  codec: Codec
  publisher: Publisher
  /** On average; they come in waves, each as fast as the log takes them. */
  recordsPerSecond: number
  /** Records that wait for the book. */
  backlog(): Promise<number>
}

/** A market being published. */
export interface MarketLoad {
  /** Records published so far. */
  published(): number
  /** Resolves when the next wave begins. */
  wave(): Promise<void>
  /** Lets every feed tell one last sound refresh; resolves with all refreshes in the order of the log. */
  end(): Promise<ScriptedRefresh[]>
}

interface Telling {
  feed: Feed
  /** Records of the refresh being told. */
  records: Outgoing[]
  told: number
}

const RECORDS_PER_SEND = [50, 1_200] as const
const BACKLOG_MOST = 80_000
const BACKLOG_LIMIT_MS = 60_000
const LOOK_EVERY_MS = 500
const WAVE_MS = 4_000

/** Begins to publish. */
export function startLoad(options: LoadOptions): MarketLoad {
  const { feeds, random, codec, publisher, recordsPerSecond } = options
  const refreshes: ScriptedRefresh[] = []
  const startedAt = performance.now()
  let published = 0
  let isEnding = false
  let waveEnd = 0
  let nextWave = Promise.withResolvers<void>()
  let lookedAt = 0

  const begin = (telling: Telling, refresh: ScriptedRefresh): void => {
    refreshes.push(refresh)
    telling.records = recordsOf(refresh, codec)
    telling.told = 0
  }
  const tell = async (telling: Telling): Promise<void> => {
    const some = telling.records.slice(telling.told, telling.told + random.integer(...RECORDS_PER_SEND))
    await publisher.send(some)
    telling.told += some.length
    published += some.length
    if (published >= waveEnd && !isEnding) {
      const aheadMs = (published / recordsPerSecond) * 1_000 - (performance.now() - startedAt)
      if (aheadMs > 0) await pause(Math.min(aheadMs, WAVE_MS))
      nextWave.resolve()
      nextWave = Promise.withResolvers<void>()
      waveEnd = published + (recordsPerSecond * WAVE_MS) / 1_000
    }
    if (performance.now() - lookedAt < LOOK_EVERY_MS) return
    lookedAt = performance.now()
    await untilShort(options.backlog)
  }
  const isTold = ({ records, told }: Telling): boolean => told >= records.length

  const run = async (): Promise<void> => {
    const tellings: Telling[] = feeds.map(feed => ({ feed, records: [], told: 0 }))
    while (!isEnding) {
      const telling = random.pick(tellings)
      if (isTold(telling)) begin(telling, telling.feed.next())
      await tell(telling)
    }
    for (const telling of tellings) while (!isTold(telling)) await tell(telling)
    for (const telling of tellings) {
      begin(telling, telling.feed.last())
      while (!isTold(telling)) await tell(telling)
    }
  }
  const running = run()
  // `end` hands a failure on; until then it must not count as nobody's.
  running.catch(() => undefined)
  return {
    published: () => published,
    wave: () => Promise.race([nextWave.promise, running]),
    async end() {
      isEnding = true
      await running
      return refreshes
    },
  }
}

async function untilShort(backlog: () => Promise<number>): Promise<void> {
  const limit = performance.now() + BACKLOG_LIMIT_MS
  while ((await backlog()) > BACKLOG_MOST) {
    if (performance.now() > limit) throw new Error(`the book did not come below ${BACKLOG_MOST} waiting records`)
    await pause(200)
  }
}
