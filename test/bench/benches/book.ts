/**
 * The book in its steady state, beside the same job in Kafka Streams, and against only decoding the same records.
 *
 * All three read the same stretches of market.quotes, one after the other. Refreshes with a fifth of their prices moved
 * are published while a gate holds them back. Of two rounds, the book works the first one off when the gate opens, the
 * other two read it while the gate holds the second back, the book works the second one off, and they follow: each
 * comes first after a publishing as often as it follows. The end of the book and of Kafka Streams is the arrival of their
 * last verdict. Invariant: both wrote the same changes, markers and verdicts, byte for byte; kafka-streams/README.md says
 * what is equal beyond that.
 */
import { cacheDirectory } from '#infra/stack/downloads.ts'
import { refreshId } from '#services/ingest/publish-refresh.ts'
import { type Baseline, type Measured, startBaseline } from '../baseline.ts'
import type { Stretch } from '../baselines/decoding-consumer.ts'
import type { Bench, BenchContext, Entry } from '../bench.ts'
import { figureEntry, ratioEntry } from '../entry.ts'
import { type Gate, openGate } from '../gate.ts'
import { provideStreamsBook } from '../kafka-streams/build.ts'
import { compareOutputs, endsOfOutputs } from '../kafka-streams/compare-outputs.ts'
import { type StreamsBook, startStreamsBook } from '../kafka-streams/streams-book.ts'
import type { PublishedRound } from '../market-load.ts'
import type { Stage } from '../stage.ts'

const PAIRS = 4
const PROVIDERS_IN_A_ROUND = 12
const MOVED_SHARE = 0.2
const ROUND_LIMIT_MS = 120_000
const CATCH_UP_LIMIT_MS = 300_000
const DECODER = new URL('../baselines/decoding-consumer.ts', import.meta.url)

/** Refreshes that were published together. */
interface Round extends PublishedRound {
  /** End offset of each partition of market.quotes behind them. */
  ends: number[]
}

/** What each of the three measured of one round. */
interface RoundFigures {
  book: Measured
  streams: Measured
  decoder: Measured
}

/** What is measured and what it runs on. */
interface Setup {
  context: BenchContext
  stage: Stage
  gate: Gate
  decoder: Baseline
  streams: StreamsBook
}

/** Records of market.quotes a second. */
export const book: Bench = {
  name: 'book',
  about: 'records a second, CPU and memory of the book, beside Kafka Streams and against only decoding',
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
      return await besideDecoder(context, stage, streams)
    } finally {
      await streams.stop()
    }
  },
}

async function besideDecoder(context: BenchContext, stage: Stage, streams: StreamsBook): Promise<Entry[]> {
  const decoder = startBaseline(DECODER)
  try {
    context.say('warming the decoding consumer up')
    await decode({ stage, decoder }, await stage.ends('quotes'))
    const gate = await openGate(stage.kafka, 'quotes')
    return await measure({ context, stage, gate, decoder, streams }).finally(() => gate.close())
  } finally {
    await decoder.stop()
  }
}

/** The last refresh of each listing: when they are judged, the whole market is read. */
const lastRefreshes = ({ market }: Stage): string[] =>
  market.listings.map(({ provider, observedAt }) => `${provider}|${refreshId(observedAt)}`)

async function measure(setup: Setup): Promise<Entry[]> {
  const { context, stage, streams } = setup
  const rounds: RoundFigures[] = []
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
    const figures = await pairOf(setup, pair)
    rounds.push(...figures)
    context.log.info({ pair, figures }, 'book')
  }
  const memory = { value: (await (await stage.book()).figures()).residentMib, against: streams.residentMib() }
  context.say('comparing what the two wrote')
  const changes = await compareOutputs(written.book, written.streams)
  context.log.info({ changes }, 'the outputs are equal')
  return entriesOf(rounds, memory, changes)
}

/** Two rounds, all of it. */
async function pairOf(setup: Setup, pair: number): Promise<RoundFigures[]> {
  const first = await publish(setup, 2 * pair)
  const ourFirst = await workOff(setup, first)
  const second = await publish(setup, 2 * pair + 1)
  const theirFirst = await others(setup, first, pair % 2 === 0)
  const ourSecond = await workOff(setup, second)
  const theirSecond = await others(setup, second, pair % 2 !== 0)
  return [
    { book: ourFirst, ...theirFirst },
    { book: ourSecond, ...theirSecond },
  ]
}

/** Publishes a round behind the closed gate. */
async function publish({ stage, gate }: Setup, round: number): Promise<Round> {
  await gate.hold()
  const chosen = stage.someListings(round * PROVIDERS_IN_A_ROUND, PROVIDERS_IN_A_ROUND)
  const published = await stage.market.publish(chosen, MOVED_SHARE)
  return { ...published, ends: await stage.ends('quotes') }
}

async function workOff({ stage, gate }: Setup, { records, refreshes }: Round): Promise<Measured> {
  const process = await stage.book()
  const before = await process.figures()
  const startedAt = performance.now()
  await gate.release()
  await stage.judged.applied(refreshes, ROUND_LIMIT_MS)
  const ms = performance.now() - startedAt
  const after = await process.figures()
  return { count: records, ms, cpuSeconds: after.cpuSeconds - before.cpuSeconds }
}

async function others(
  setup: Setup,
  round: Round,
  isDecoderFirst: boolean,
): Promise<Pick<RoundFigures, 'streams' | 'decoder'>> {
  const early = isDecoderFirst ? await decodeRound(setup, round) : undefined
  const streams = await workOffInStreams(setup, round)
  return { streams, decoder: early ?? (await decodeRound(setup, round)) }
}

async function workOffInStreams({ streams }: Setup, { records, refreshes }: Round): Promise<Measured> {
  const before = streams.cpuSeconds()
  const startedAt = performance.now()
  await streams.resume()
  await streams.judged.applied(refreshes, ROUND_LIMIT_MS)
  const ms = performance.now() - startedAt
  const cpuSeconds = streams.cpuSeconds() - before
  await streams.pause()
  return { count: records, ms, cpuSeconds }
}

const decode = ({ stage, decoder }: Pick<Setup, 'stage' | 'decoder'>, ends: number[]): Promise<Measured> =>
  decoder.ask<Measured>('consume', { environment: stage.environment, ends } satisfies Stretch)

/** Decodes what the consumer has not yet had, which is this round. */
async function decodeRound(setup: Setup, { ends, records }: Round): Promise<Measured> {
  const decoded = await decode(setup, ends)
  if (decoded.count !== records) throw new Error(`book: ${decoded.count} of ${records} records were decoded`)
  return decoded
}

const rateOf = ({ count, ms }: Measured): number => (count * 1_000) / ms

const microsecondsOf = ({ count, cpuSeconds }: Measured): number => (cpuSeconds * 1e6) / count

function entriesOf(
  rounds: readonly RoundFigures[],
  memory: { value: number; against: number },
  changes: number,
): Entry[] {
  const turns = (against: 'streams' | 'decoder', of: typeof rateOf) =>
    rounds.map(round => ({ value: of(round.book), against: of(round[against]) }))
  const rate = { unit: 'records/s', better: 'higher' } as const
  const cpu = { unit: 'us', better: 'lower' } as const
  return [
    ratioEntry({ name: 'book: records, against only decoding them', ...rate }, turns('decoder', rateOf)),
    ratioEntry({ name: 'book: CPU of a record, against only decoding it', ...cpu }, turns('decoder', microsecondsOf)),
    ratioEntry({ name: 'book: records, beside Kafka Streams', ...rate }, turns('streams', rateOf)),
    ratioEntry({ name: 'book: CPU of a record, beside Kafka Streams', ...cpu }, turns('streams', microsecondsOf)),
    ratioEntry({ name: 'book: memory with the whole market, beside Kafka Streams', unit: 'MiB', better: 'lower' }, [
      memory,
    ]),
    figureEntry({ name: 'book: changes that Kafka Streams wrote alike', unit: 'changes', better: null }, changes),
  ]
}
