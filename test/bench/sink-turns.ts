/**
 * Measures a sink of market.book-changes in turns with what it is measured against.
 *
 * A turn: the gate holds the changes back while the book makes a backlog of them; the gate opens and the
 * sink works it off, alone on the machine; then the yardstick writes the same rows. Invariant: a turn
 * begins only when the sink has nothing left of the one before.
 */
import type { RoleName } from '#services/cli/roles.ts'
import type { BenchContext } from './bench.ts'
import type { Turn } from './entry.ts'
import { openGate } from './gate.ts'
import type { RoleProcess } from './role-process.ts'
import type { Stage } from './stage.ts'
import type { Measured } from './yardstick.ts'

/** A stretch of market.book-changes: offsets by partition. */
export interface ChangeStretch {
  from: number[]
  to: number[]
}

/** A sink and what it is measured against. */
export interface SinkRivalry {
  role: RoleName
  /** What the sink has written so far, in the unit of its rate; left out: changes are the unit. */
  written?(process: RoleProcess): Promise<number>
  /** Writes the same rows the plain way; `count` in the same unit. */
  yardstick(stretch: ChangeStretch): Promise<Measured>
}

/** One turn of a sink. */
export interface SinkTurn {
  /** Units a second. */
  rate: Turn
  /** Microseconds of CPU in the sink's own process, and in the yardstick's, a unit. */
  cpu: Turn
}

const TURNS = 4
const PROVIDERS_IN_A_TURN = 8
const JUDGE_LIMIT_MS = 120_000
const CATCH_UP_LIMIT_MS = 240_000

/** Starts the sink, lets it catch up, and measures. */
export async function measureSink(context: BenchContext, stage: Stage, rivalry: SinkRivalry): Promise<SinkTurn[]> {
  const { role } = rivalry
  context.say(`${role} is catching up with the whole market`)
  const process = await stage.role(role)
  await stage.reached(role, 'bookChanges', await stage.ends('bookChanges'), CATCH_UP_LIMIT_MS)
  const gate = await openGate(stage.kafka, 'bookChanges')
  const count = context.isQuick ? 2 : TURNS
  const turns: SinkTurn[] = []
  try {
    for (let turn = 0; turn < count; turn++) {
      context.signal.throwIfAborted()
      context.say(`turn ${turn + 1} of ${count}: making a backlog of changes`)
      const from = await stage.ends('bookChanges')
      await gate.hold()
      const chosen = stage.someListings(turn * PROVIDERS_IN_A_TURN, PROVIDERS_IN_A_TURN)
      const { moved, refreshes } = await stage.market.publish(chosen, 1)
      await stage.judged.applied(refreshes, JUDGE_LIMIT_MS)
      const stretch = { from, to: await stage.ends('bookChanges') }
      context.say(`turn ${turn + 1} of ${count}: measuring`)
      const sunk = await workOff(stage, process, rivalry, stretch, () => gate.release(), moved)
      const plain = await rivalry.yardstick(stretch)
      turns.push({
        rate: { value: (sunk.count / sunk.ms) * 1000, against: (plain.count / plain.ms) * 1000 },
        cpu: { value: (sunk.cpuSeconds / sunk.count) * 1e6, against: (plain.cpuSeconds / plain.count) * 1e6 },
      })
      context.log.info({ role, turn, moved, sunk, plain }, 'sink')
    }
  } finally {
    await gate.close()
  }
  return turns
}

async function workOff(
  stage: Stage,
  process: RoleProcess,
  { role, written }: SinkRivalry,
  { to }: ChangeStretch,
  release: () => Promise<void>,
  moved: number,
): Promise<Measured> {
  const writtenBefore = await written?.(process)
  const before = await process.figures()
  const startedAt = performance.now()
  await release()
  await stage.reached(role, 'bookChanges', to, CATCH_UP_LIMIT_MS)
  const ms = performance.now() - startedAt
  const after = await process.figures()
  const count = written === undefined ? moved : (await written(process)) - (writtenBefore ?? 0)
  return { count, ms, cpuSeconds: after.cpuSeconds - before.cpuSeconds }
}
