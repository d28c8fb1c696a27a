/**
 * Measures a sink of market.book-changes in turns with what it is measured against, both by the rows that are in the table
 * afterwards.
 *
 * The gate holds changes back while the book makes a backlog of them. Of two rounds, the sink works the first one off
 * when the gate opens, the yardstick writes the same rows while the gate holds the second back, the sink works the second
 * one off, and the yardstick follows: each comes first after a backlog was made as often as it follows. Invariant: a round
 * begins only when the sink has nothing left of the one before; one of which rows are missing in the table is no result.
 */
import type { RoleName } from '#services/cli/roles.ts'
import type { BenchContext } from './bench.ts'
import type { Turn } from './entry.ts'
import { type Gate, openGate } from './gate.ts'
import type { OffsetStretch } from './read-stretch.ts'
import type { Stage } from './stage.ts'
import type { Measured } from './yardstick.ts'

/** Changes that were made together, each of another item and provider. */
export interface SinkRound extends OffsetStretch {
  changes: number
  /** When they were observed, at the earliest; milliseconds since the epoch. */
  since: number
  providers: string[]
}

/** A sink and what it is measured against. */
export interface SinkRivalry {
  role: RoleName
  /** Rows that one change makes. */
  rowsOfAChange: number
  /** How many rows of a round the sink's store holds. */
  rows(round: SinkRound): Promise<number>
  /** Writes the same rows the plain way; `count` is how many of them its store holds afterwards. */
  yardstick(round: SinkRound): Promise<Measured>
}

/** One turn of a sink. */
export interface SinkTurn {
  /** Rows a second. */
  rate: Turn
  /** Microseconds of CPU in the sink's own process, and in the yardstick's, a row. */
  cpu: Turn
}

interface Contest {
  context: BenchContext
  stage: Stage
  rivalry: SinkRivalry
  gate: Gate
}

const PAIRS = 3
const PROVIDERS_IN_A_ROUND = 6
const JUDGE_LIMIT_MS = 120_000
const CATCH_UP_LIMIT_MS = 240_000

/** Starts the sink, lets it catch up, and measures. */
export async function measureSink(context: BenchContext, stage: Stage, rivalry: SinkRivalry): Promise<SinkTurn[]> {
  const { role } = rivalry
  context.say(`${role} is catching up with the whole market`)
  await stage.role(role)
  await stage.reached(role, 'bookChanges', await stage.ends('bookChanges'), CATCH_UP_LIMIT_MS)
  const gate = await openGate(stage.kafka, 'bookChanges')
  const contest = { context, stage, rivalry, gate }
  const pairs = context.isQuick ? 1 : PAIRS
  const turns: SinkTurn[] = []
  try {
    for (let pair = 0; pair < pairs; pair++) {
      context.signal.throwIfAborted()
      context.say(`pair ${pair + 1} of ${pairs}`)
      const first = await makeBacklog(contest, 2 * pair)
      const ourFirst = await workOff(contest, first)
      const second = await makeBacklog(contest, 2 * pair + 1)
      const theirFirst = await writePlainly(contest, first)
      const ourSecond = await workOff(contest, second)
      const theirSecond = await writePlainly(contest, second)
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
async function makeBacklog({ stage, gate }: Contest, round: number): Promise<SinkRound> {
  const from = await stage.ends('bookChanges')
  await gate.hold()
  const since = Date.now()
  const chosen = stage.someListings(round * PROVIDERS_IN_A_ROUND, PROVIDERS_IN_A_ROUND)
  const { moved, refreshes } = await stage.market.publish(chosen, 1)
  await stage.judged.applied(refreshes, JUDGE_LIMIT_MS)
  const providers = chosen.map(({ provider }) => provider)
  return { from, to: await stage.ends('bookChanges'), changes: moved, since, providers }
}

async function workOff({ stage, rivalry, gate }: Contest, round: SinkRound): Promise<Measured> {
  const { role } = rivalry
  const process = await stage.role(role)
  const before = await process.figures()
  const startedAt = performance.now()
  await gate.release()
  await stage.reached(role, 'bookChanges', round.to, CATCH_UP_LIMIT_MS)
  const ms = performance.now() - startedAt
  const cpuSeconds = (await process.figures()).cpuSeconds - before.cpuSeconds
  return { count: allRows(rivalry, round, await rivalry.rows(round), role), ms, cpuSeconds }
}

async function writePlainly({ rivalry }: Contest, round: SinkRound): Promise<Measured> {
  const plain = await rivalry.yardstick(round)
  allRows(rivalry, round, plain.count, 'what it is measured against')
  return plain
}

/** Throws unless a store holds every row that a round makes. */
function allRows({ role, rowsOfAChange }: SinkRivalry, { changes }: SinkRound, found: number, writer: string): number {
  const due = changes * rowsOfAChange
  if (due === 0 || found < due) throw new Error(`${role}: the table holds ${found} of ${due} rows of ${writer}`)
  return found
}
