/**
 * The book in its steady state, against a consumer that decodes the same records and does nothing else.
 *
 * The whole market is loaded first and not counted. Then in turns: refreshes with a fifth of their prices
 * moved are published while a gate holds them back; the gate opens and the book works them off; the
 * decoding consumer reads the same stretch of the log. The book's end is the arrival of its last verdict.
 * For comparison: the same job in Java Kafka Streams (exactly_once_v2, in memory) took 6.1 to 6.7 us of
 * CPU a record on a machine of this kind.
 */
import type { Bench, BenchContext, Entry } from '../bench.ts'
import { figureEntry, ratioEntry, type Turn } from '../entry.ts'
import { openGate } from '../gate.ts'
import type { Stage } from '../stage.ts'
import { type Measured, startYardstick, type Yardstick } from '../yardstick.ts'
import type { Stretch } from '../yardsticks/decoding-consumer.ts'

const BAR = 0.25
const TURNS = 5
const PROVIDERS_IN_A_TURN = 20
const MOVED_SHARE = 0.2
const TURN_LIMIT_MS = 120_000
const DECODER = new URL('../yardsticks/decoding-consumer.ts', import.meta.url)

/** What one turn measured. */
interface BookTurn {
  rate: Turn
  cpu: Turn
}

/** Records of market.quotes a second. */
export const book: Bench = {
  name: 'book',
  about: 'records a second and CPU of a record in the book, against a consumer that only decodes them',
  async run(context) {
    const stage = await context.stage()
    const decoder = startYardstick(DECODER)
    try {
      context.say('warming the decoding consumer up')
      await decode(decoder, stage)
      const turns = await measure(context, stage, decoder)
      const { residentMib } = await (await stage.book()).figures()
      return [
        ...entriesOf(turns),
        figureEntry({ name: 'book: memory with the whole market', unit: 'MiB' }, residentMib),
      ]
    } finally {
      await decoder.stop()
    }
  },
}

function entriesOf(turns: readonly BookTurn[]): Entry[] {
  return [
    ratioEntry(
      { name: 'book: records, against only decoding them', unit: 'records/s' },
      turns.map(({ rate }) => rate),
      BAR,
    ),
    ratioEntry(
      { name: 'book: CPU of a record, against only decoding it', unit: 'us' },
      turns.map(({ cpu }) => cpu),
    ),
  ]
}

async function measure(context: BenchContext, stage: Stage, decoder: Yardstick): Promise<BookTurn[]> {
  const gate = await openGate(stage.kafka, 'quotes')
  const turns: BookTurn[] = []
  const count = context.isQuick ? 2 : TURNS
  try {
    for (let turn = 0; turn < count; turn++) {
      context.signal.throwIfAborted()
      context.say(`turn ${turn + 1} of ${count}: publishing`)
      const chosen = stage.someListings(turn * PROVIDERS_IN_A_TURN, PROVIDERS_IN_A_TURN)
      const process = await stage.book()
      await gate.hold()
      const round = await stage.market.publish(chosen, MOVED_SHARE)
      const before = await process.figures()
      context.say(`turn ${turn + 1} of ${count}: measuring`)
      const startedAt = performance.now()
      await gate.release()
      await stage.judged.applied(round.refreshes, TURN_LIMIT_MS)
      const ms = performance.now() - startedAt
      const after = await process.figures()
      const decoded = await decode(decoder, stage)
      if (decoded.count !== round.records) throw new Error(`${decoded.count} of ${round.records} records were decoded`)
      turns.push({
        rate: { value: (round.records / ms) * 1000, against: (decoded.count / decoded.ms) * 1000 },
        cpu: {
          value: ((after.cpuSeconds - before.cpuSeconds) / round.records) * 1e6,
          against: (decoded.cpuSeconds / decoded.count) * 1e6,
        },
      })
      context.log.info({ turn, ...turns.at(-1) }, 'book')
    }
  } finally {
    await gate.close()
  }
  return turns
}

async function decode(decoder: Yardstick, stage: Stage): Promise<Measured> {
  const stretch: Stretch = { config: stage.config, ends: await stage.ends('quotes') }
  return decoder.ask<Measured>('consume', stretch)
}
