/**
 * Sinks of market.book-changes that work off a backlog, in turns with plain writes of the same rows.
 *
 * The gate holds changes back while the book makes a backlog of them. A round begins only when the sink has nothing left of the
 * one before, and is over when the sink has committed it, which it does once the store has confirmed.
 */
import type { Baseline, Measured } from '../baseline.ts'
import type { SinkName, SinkQuestion, SinkRound } from '../baselines/read-changes.ts'
import type { Bench, BenchContext } from '../bench.ts'
import { entryOf, requireSome, type Turn } from '../entry.ts'
import { type Gate, openGate, pairOfTurns } from '../gate.ts'
import type { Stage } from '../stage.ts'

/** Rows that a change makes: one; one in `changes` and one in `provider_days`; three parts and a current ask. */
const ROWS_OF_A_CHANGE: Record<SinkName, number> = { 'live-view': 1, history: 2, candles: 4 }
const PAIRS = 3
const PROVIDERS_IN_A_ROUND = 6
const JUDGE_LIMIT_MS = 120_000
const CATCH_UP_LIMIT_MS = 240_000

const sinkBench = (sink: SinkName, unit: string, baseline: string, what: string): Bench => ({
  name: sink,
  about: `the sink ${sink}: ${what}`,
  async run(context) {
    const stage = await context.stage()
    const plain = context.baseline(baseline)
    try {
      return [entryOf(`${sink}: ${what}`, unit, await measureSink(context, { stage, sink, plain }))]
    } finally {
      await plain.ask('remove', stage.environment)
    }
  },
})

/** The table is at full size: 41 rows an item. */
export const liveView = sinkBench(
  'live-view',
  'changes/s',
  'pipelined-hset',
  'changes written, against plain pipelined HSETs',
)

export const history = sinkBench('history', 'rows/s', 'direct-insert', 'rows inserted, against direct inserts of them')

export const candles = sinkBench('candles', 'rows/s', 'direct-insert', 'rows inserted, against direct inserts of them')

interface Setup {
  stage: Stage
  sink: SinkName
  plain: Baseline
}

async function measureSink(context: BenchContext, setup: Setup): Promise<Turn[]> {
  const { stage, sink } = setup
  context.say(`${sink} is catching up with the whole market`)
  await stage.role(sink)
  await stage.caughtUp([sink], CATCH_UP_LIMIT_MS)
  const gate = await openGate(stage.kafka, 'bookChanges')
  const pairs = context.isQuick ? 1 : PAIRS
  const turns: Turn[] = []
  try {
    for (let pair = 0; pair < pairs; pair++) {
      context.signal.throwIfAborted()
      context.say(`pair ${pair + 1} of ${pairs}`)
      let round = 2 * pair
      const pairTurns = await pairOfTurns(
        () => makeBacklog(stage, gate, round++),
        made => workOff(setup, gate, made),
        made => writePlainly(setup, made),
      )
      turns.push(...pairTurns)
    }
  } finally {
    await gate.close()
  }
  return turns
}

async function makeBacklog(stage: Stage, gate: Gate, round: number): Promise<SinkRound> {
  const from = await stage.ends('bookChanges')
  await gate.hold()
  const chosen = stage.someListings(round * PROVIDERS_IN_A_ROUND, PROVIDERS_IN_A_ROUND)
  const { moved, refreshes } = await stage.market.publish(chosen, 1)
  await stage.judged.applied(refreshes, JUDGE_LIMIT_MS)
  requireSome('changes of a round', moved)
  return { from, to: await stage.ends('bookChanges'), changes: moved }
}

async function workOff({ stage, sink }: Setup, gate: Gate, round: SinkRound): Promise<number> {
  const startedAt = performance.now()
  await gate.release()
  await stage.reached(sink, 'bookChanges', round.to, CATCH_UP_LIMIT_MS)
  return (round.changes * ROWS_OF_A_CHANGE[sink] * 1_000) / (performance.now() - startedAt)
}

async function writePlainly({ stage: { environment }, sink, plain }: Setup, round: SinkRound): Promise<number> {
  const { count, ms } = await plain.ask<Measured>('write', { ...round, environment, sink } satisfies SinkQuestion)
  if (count < round.changes) throw new Error(`${sink}: ${count} of ${round.changes} changes were written plainly`)
  return (count * ROWS_OF_A_CHANGE[sink] * 1_000) / ms
}
