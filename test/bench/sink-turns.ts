/**
 * Measures a sink of market.book-changes in turns with its baseline, both by the rows that are in the table afterwards.
 *
 * The gate holds changes back while the book makes a backlog of them. Of two rounds, the sink works the first one off
 * when the gate opens, the baseline writes the same rows while the gate holds the second back, the sink works the second
 * one off, and the baseline follows: each comes first after a backlog was made as often as it follows. A round begins only
 * when the sink has nothing left of the one before. A round with rows missing in the table fails the benchmark.
 */
import type { RoleName } from '#services/cli/roles.ts'
import type { Measured } from './baseline.ts'
import type { BenchContext } from './bench.ts'
import type { Turn } from './entry.ts'
import { type Gate, openGate } from './gate.ts'
import type { OffsetStretch } from './read-stretch.ts'
import type { Stage } from './stage.ts'

/** Changes that were made together, each of another item and provider. */
export interface SinkRound extends OffsetStretch {
  changes: number
  /** When they were observed, at the earliest; milliseconds since the epoch. */
  since: number
  providers: string[]
}

/** A sink and its baseline. */
export interface SinkUnderTest {
  role: RoleName
  /** Rows that one change makes. */
  rowsOfAChange: number
  /** How many rows of a round the sink's store holds. */
  rows(round: SinkRound): Promise<number>
  /** Writes the same rows directly; `count` is how many of them its store holds afterwards. */
  baseline(round: SinkRound): Promise<Measured>
}

/** One turn of a sink. */
export interface SinkTurn {
  /** Rows a second. */
  rate: Turn
  /** Microseconds of CPU in the sink's own process, and in the baseline's, a row. */
  cpu: Turn
}

interface Setup {
  context: BenchContext
  stage: Stage
  tested: SinkUnderTest
  gate: Gate
}

const PAIRS = 3
const PROVIDERS_IN_A_ROUND = 6
const JUDGE_LIMIT_MS = 120_000
const CATCH_UP_LIMIT_MS = 240_000

/** Starts the sink, lets it catch up, and measures. */
export async function measureSink(context: BenchContext, stage: Stage, tested: SinkUnderTest): Promise<SinkTurn[]> {
  const { role } = tested
  context.say(`${role} is catching up with the whole market`)
  await stage.role(role)
  await stage.reached(role, 'bookChanges', await stage.ends('bookChanges'), CATCH_UP_LIMIT_MS)
  const gate = await openGate(stage.kafka, 'bookChanges')
  const setup = { context, stage, tested, gate }
  const pairs = context.isQuick ? 1 : PAIRS
  const turns: SinkTurn[] = []
  try {
    for (let pair = 0; pair < pairs; pair++) {
      context.signal.throwIfAborted()
      context.say(`pair ${pair + 1} of ${pairs}`)
      const first = await makeBacklog(setup, 2 * pair)
      const ourFirst = await workOff(setup, first)
      const second = await makeBacklog(setup, 2 * pair + 1)
      const theirFirst = await writePlainly(setup, first)
      const ourSecond = await workOff(setup, second)
      const theirSecond = await writePlainly(setup, second)
      turns.push(turnOf(ourFirst, theirFirst), turnOf(ourSecond, theirSecond))
      context.log.info({ role, pair, ourFirst, theirFirst, ourSecond, theirSecond }, 'sink')
    }
  } finally {
    await gate.close()
  }
  return turns
}

const turnOf = (ours: Measured, theirs: Measured): SinkTurn => ({
  rate: { value: (ours.count * 1_000) / ours.ms, against: (theirs.count * 1_000) / theirs.ms },
  cpu: { value: (ours.cpuSeconds * 1e6) / ours.count, against: (theirs.cpuSeconds * 1e6) / theirs.count },
})

/** Has the book make changes of every item of some providers behind the closed gate. */
async function makeBacklog({ stage, gate }: Setup, round: number): Promise<SinkRound> {
  const from = await stage.ends('bookChanges')
  await gate.hold()
  const since = Date.now()
  const chosen = stage.someListings(round * PROVIDERS_IN_A_ROUND, PROVIDERS_IN_A_ROUND)
  const { moved, refreshes } = await stage.market.publish(chosen, 1)
  await stage.judged.applied(refreshes, JUDGE_LIMIT_MS)
  const providers = chosen.map(({ provider }) => provider)
  return { from, to: await stage.ends('bookChanges'), changes: moved, since, providers }
}

async function workOff({ stage, tested, gate }: Setup, round: SinkRound): Promise<Measured> {
  const { role } = tested
  const process = await stage.role(role)
  const before = await process.figures()
  const startedAt = performance.now()
  await gate.release()
  await stage.reached(role, 'bookChanges', round.to, CATCH_UP_LIMIT_MS)
  const ms = performance.now() - startedAt
  const cpuSeconds = (await process.figures()).cpuSeconds - before.cpuSeconds
  return { count: allRows(tested, round, await tested.rows(round), role), ms, cpuSeconds }
}

async function writePlainly({ tested }: Setup, round: SinkRound): Promise<Measured> {
  const plain = await tested.baseline(round)
  allRows(tested, round, plain.count, 'what it is measured against')
  return plain
}

/** Throws unless a store holds every row that a round makes. */
function allRows(
  { role, rowsOfAChange }: SinkUnderTest,
  { changes }: SinkRound,
  found: number,
  writer: string,
): number {
  const due = changes * rowsOfAChange
  if (due === 0 || found < due) throw new Error(`${role}: the table holds ${found} of ${due} rows of ${writer}`)
  return found
}
