/**
 * Publishes a seeded market in waves, feeds mixed as they are in the log, until it is ended; and how far its readers are behind. The number of
 * records that wait for the book is bounded, so that a slow machine slows the market down.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Codec } from '#infra/kafka/codec.ts'
import type { LagReader } from '#infra/kafka/lag.ts'
import type { Outgoing, Publisher } from '#infra/kafka/publisher.ts'
import { readingGroups } from '#services/cli/reading-groups.ts'
import type { Feed } from '#test/fixtures/seeded-market.ts'
import { eventually } from '#test/harness/eventually.ts'
import { type PublishedRefresh, refreshRecords } from '#test/harness/published-records.ts'
import type { SeededRandom } from '#test/harness/seeded-random.ts'

interface LoadOptions {
  feeds: readonly Feed[]
  random: SeededRandom
  codec: Codec
  publisher: Publisher
  /** On average; they come in waves, each as fast as the log takes them. */
  recordsPerSecond: number
  backlog(): Promise<number>
}

export type MarketLoad = ReturnType<typeof startLoad>

interface Publishing {
  feed: Feed
  records: Outgoing[]
  sent: number
}

const RECORDS_PER_SEND = [50, 1_200] as const
const BACKLOG_MOST = 80_000
const BACKLOG_LIMIT_MS = 60_000
const CHECK_EVERY_MS = 500
const WAVE_MS = 4_000

export function startLoad(options: LoadOptions) {
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
    const isShort = async () => (await options.backlog()) <= BACKLOG_MOST
    await eventually(isShort, `the book to come below ${BACKLOG_MOST} waiting records`, BACKLOG_LIMIT_MS)
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
    /** Publishes one last sound refresh of every feed; resolves with all refreshes in the order of the log. */
    async end(): Promise<PublishedRefresh[]> {
      isEnding = true
      await running
      return refreshes
    },
  }
}

/** The records between a group's positions and the ends of its topics. */
export async function lagOf(look: LagReader, group: string): Promise<number> {
  const lags = await look.read(readingGroups().filter(reading => reading.group === group))
  return lags.reduce((sum, { lag }) => sum + lag, 0)
}

/** Resolves when groups have reached the ends of their topics, one after the other: what one derives, the next has yet to read. */
export async function groupsDrained(look: LagReader, groups: readonly string[], limitMs: number): Promise<void> {
  for (const group of groups)
    await eventually(async () => (await lagOf(look, group)) === 0, `${group} to reach its end`, limitMs)
}
