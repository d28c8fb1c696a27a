/**
 * Publishes a seeded market in waves, feeds mixed as they are in the log, until it is ended.
 *
 * Writes market.quotes and market.bids. Each feed's refreshes are in the log in the order in which the feed made them, and the
 * log holds all of them when `end` resolves. The number of records that wait for the book is bounded, so that a slow machine
 * slows the market down.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Codec } from '#infra/kafka/codec.ts'
import type { Outgoing, Publisher } from '#infra/kafka/publisher.ts'
import type { Feed } from '#test/fixtures/seeded-market.ts'
import { type PublishedRefresh, refreshRecords } from '#test/harness/published-records.ts'
import type { SeededRandom } from '#test/harness/seeded-random.ts'

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
  /** Publishes one last sound refresh of every feed; resolves with all refreshes in the order of the log. */
  end(): Promise<PublishedRefresh[]>
}

interface Publishing {
  feed: Feed
  /** Records of the refresh being published. */
  records: Outgoing[]
  sent: number
}

const RECORDS_PER_SEND = [50, 1_200] as const
const BACKLOG_MOST = 80_000
const BACKLOG_LIMIT_MS = 60_000
const CHECK_EVERY_MS = 500
const WAVE_MS = 4_000

/** Begins to publish. */
export function startLoad(options: LoadOptions): MarketLoad {
  const { feeds, random, codec, publisher, recordsPerSecond } = options
  const refreshes: PublishedRefresh[] = []
  const startedAt = performance.now()
  let published = 0
  let isEnding = false
  let waveEnd = 0
  let nextWave = Promise.withResolvers<void>()
  let checkedAt = 0

  const begin = (publishing: Publishing, refresh: PublishedRefresh): void => {
    refreshes.push(refresh)
    publishing.records = refreshRecords(codec, refresh)
    publishing.sent = 0
  }
  const sendSome = async (publishing: Publishing): Promise<void> => {
    const some = publishing.records.slice(publishing.sent, publishing.sent + random.integer(...RECORDS_PER_SEND))
    await publisher.send(some)
    publishing.sent += some.length
    published += some.length
    if (published >= waveEnd && !isEnding) {
      const aheadMs = (published / recordsPerSecond) * 1_000 - (performance.now() - startedAt)
      if (aheadMs > 0) await pause(Math.min(aheadMs, WAVE_MS))
      nextWave.resolve()
      nextWave = Promise.withResolvers<void>()
      waveEnd = published + (recordsPerSecond * WAVE_MS) / 1_000
    }
    if (performance.now() - checkedAt < CHECK_EVERY_MS) return
    checkedAt = performance.now()
    await untilShort(options.backlog)
  }
  const isSent = ({ records, sent }: Publishing): boolean => sent >= records.length

  const run = async (): Promise<void> => {
    const publishings: Publishing[] = feeds.map(feed => ({ feed, records: [], sent: 0 }))
    while (!isEnding) {
      const publishing = random.pick(publishings)
      if (isSent(publishing)) begin(publishing, publishing.feed.next())
      await sendSome(publishing)
    }
    for (const publishing of publishings) while (!isSent(publishing)) await sendSome(publishing)
    for (const publishing of publishings) {
      begin(publishing, publishing.feed.last())
      while (!isSent(publishing)) await sendSome(publishing)
    }
  }
  const running = run()
  // `end` hands a failure on; until then it must not count as unhandled.
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
