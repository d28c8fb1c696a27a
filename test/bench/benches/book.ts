/**
 * The book in its steady state, beside the same job in Kafka Streams: both read the same stretches of market.quotes, one after the other,
 * until their last verdict. Invariant: both wrote the same changes, markers and verdicts, byte for byte; kafka-streams/README.md says what is
 * equal beyond that.
 */
import { cacheDirectory } from '#infra/stack/downloads.ts'
import { refreshId } from '#services/ingest/publish-refresh.ts'
import type { Bench, BenchContext } from '../bench.ts'
import { type Entry, entryOf, type Turn } from '../entry.ts'
import { type Gate, openGate, pairOfTurns } from '../gate.ts'
import {
  compareOutputs,
  endsOfOutputs,
  provideStreamsBook,
  type StreamsBook,
  startStreamsBook,
} from '../kafka-streams/streams-book.ts'
import type { PublishedRound } from '../market-load.ts'
import type { JudgedWatch, Stage } from '../stage.ts'

const PAIRS = 4
const PROVIDERS_IN_A_ROUND = 12
const MOVED_SHARE = 0.2
const ROUND_LIMIT_MS = 120_000
const CATCH_UP_LIMIT_MS = 300_000

interface Setup {
  context: BenchContext
  stage: Stage
  gate: Gate
  streams: StreamsBook
}

export const book: Bench = {
  name: 'book',
  about: 'records a second and memory of the book, beside Kafka Streams',
  async run(context) {
    const { say, signal } = context
    const cacheDir = cacheDirectory(process.env)
    const program = await provideStreamsBook({ cacheDir, environment: process.env, say, signal })
    const stage = await context.stage()
    say('Kafka Streams is reading the whole market')
    const streams = await startStreamsBook(program, stage)
    try {
      await streams.judged.applied(lastRefreshes(stage), CATCH_UP_LIMIT_MS)
      await streams.pause()
      const gate = await openGate(stage.kafka, 'quotes')
      return await measure({ context, stage, gate, streams }).finally(() => gate.close())
    } finally {
      await streams.stop()
    }
  },
}

/** The last refresh of each listing: when they are judged, the whole market is read. */
const lastRefreshes = ({ market }: Stage): string[] =>
  market.listings.map(({ provider, observedAt }) => `${provider}|${refreshId(observedAt)}`)

async function measure(setup: Setup): Promise<Entry[]> {
  const { context, stage, streams } = setup
  const turns: Turn[] = []
  // Programs compile what they run: the first pair counts for none of them.
  await pairOf(setup, 0)
  const written = {
    book: { kafka: stage.kafka, from: await endsOfOutputs(stage.kafka) },
    streams: { kafka: streams.kafka, from: await endsOfOutputs(streams.kafka) },
  }
  const pairs = context.isQuick ? 1 : PAIRS
  for (let pair = 1; pair <= pairs; pair++) {
    context.signal.throwIfAborted()
    context.say(`pair ${pair} of ${pairs}`)
    turns.push(...(await pairOf(setup, pair)))
  }
  const memory = { value: (await (await stage.role('book')).figures()).residentMib, against: streams.residentMib() }
  context.say('comparing what the two wrote')
  await compareOutputs(written.book, written.streams)
  return [
    entryOf('book: records, beside Kafka Streams', 'records/s', turns),
    entryOf('book: memory with the whole market, beside Kafka Streams', 'MiB', [memory]),
  ]
}

function pairOf({ stage, gate, streams }: Setup, pair: number): Promise<Turn[]> {
  let round = 2 * pair
  const publish = async (): Promise<PublishedRound> => {
    await gate.hold()
    const chosen = stage.someListings(round++ * PROVIDERS_IN_A_ROUND, PROVIDERS_IN_A_ROUND)
    return stage.market.publish(chosen, MOVED_SHARE)
  }
  const workOff =
    (begin: () => Promise<void>, { applied }: JudgedWatch) =>
    async ({ records, refreshes }: PublishedRound): Promise<number> => {
      const startedAt = performance.now()
      await begin()
      await applied(refreshes, ROUND_LIMIT_MS)
      return (records * 1_000) / (performance.now() - startedAt)
    }
  const inStreams = workOff(streams.resume, streams.judged)
  return pairOfTurns(publish, workOff(gate.release, stage.judged), async published => {
    const perSecond = await inStreams(published)
    await streams.pause()
    return perSecond
  })
}
