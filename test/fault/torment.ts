/**
 * Kills and freezes processes of a role at random moments and starts them again, as a supervisor would.
 *
 * States of a member: running -> (killed | ended by itself) -> waiting -> running, and running -> frozen -> running.
 * A frozen one is stopped longer than its group session lasts, so that it wakes as a zombie whose work
 * another has taken over. Invariant: the same seed plans the same blows and pauses; after the last blow every
 * member is awake; a process that ended by itself is started again and counted.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { randomOf, type SeededRandom } from '#test/harness/seeded-random.ts'
import type { SpawnedRole } from '#test/harness/spawn-role.ts'
import { type Kept, keepRunning, READY_LIMIT_MS, SAYS_WHY } from './keep-running.ts'

/** How a pack of processes is treated. */
export interface TormentPlan {
  /** What the processes run, for the report. */
  role: string
  processes: number
  kills: number
  zombies: number
  /** Pause before each blow, in milliseconds. */
  pauseMs: readonly [least: number, most: number]
  start(): Promise<SpawnedRole>
  /** Resolves when records begin to pour in: only a blow under load proves something. */
  work(): Promise<void>
  /** How far into its work a process is struck, in milliseconds. */
  intoWorkMs: readonly [least: number, most: number]
  /** Records that wait for the pack, asked right before each blow. */
  backlog(): Promise<number>
}

/** What a pack went through. */
export interface TormentReport {
  role: string
  kills: number
  zombies: number
  /** Blows at a time when records waited. */
  underLoad: number
  /** Processes that ended by themselves, a lost dependency or a lost partition as the reason. */
  endedByThemselves: number
  seconds: number
}

/** A pack that runs until it is stopped. */
export interface Pack {
  /** Resolves when all blows have fallen and all members run again. */
  readonly done: Promise<TormentReport>
  stop(): Promise<void>
}

interface Member {
  kept: Kept
  isFrozen: boolean
}

/** Longer than the 10 s after which a group gives a silent member's partitions away. */
const FROZEN_MS = [11_500, 15_000] as const

/** Starts a pack and begins to torment it. */
export function torment(random: SeededRandom, plan: TormentPlan): Pack {
  const members: Member[] = Array.from({ length: plan.processes }, (_, at) => ({
    kept: keepRunning({ name: plan.role, random: randomOf(random.seed + at), start: plan.start, mayEnd: SAYS_WHY }),
    isFrozen: false,
  }))
  const ending = new AbortController()
  /** A member that runs on when the work begins, and what waits then; the wait may outlast one that ends by itself. */
  const victimAtWork = async (): Promise<{ victim: Member; waiting: number }> => {
    for (let look = 1; ; look++) {
      const victim = await oneOf(members, random.chance(EARLY_CHANCE), random, ending.signal)
      await plan.work()
      await pause(random.integer(...plan.intoWorkMs), undefined, { signal: ending.signal })
      // Others of the pack may have done all of it meanwhile; what is quick enough for that is struck idle in the end.
      const waiting = await plan.backlog()
      if (victim.kept.role() !== undefined && (waiting > 0 || look >= LOOKS_FOR_LOAD)) return { victim, waiting }
    }
  }
  const strike = async (): Promise<TormentReport> => {
    const startedAt = performance.now()
    const report = { role: plan.role, kills: 0, zombies: 0, underLoad: 0 }
    const thaws: Promise<void>[] = []
    for (const blow of blowsOf(random, plan)) {
      await pause(random.integer(...plan.pauseMs), undefined, { signal: ending.signal })
      const { victim, waiting } = await victimAtWork()
      report[blow] += 1
      if (blow === 'kills') victim.kept.role()?.kill('SIGKILL')
      else {
        const thaw = freeze(random, victim, ending.signal)
        thaws.push(thaw)
        // Half of the time the others are struck while this one sleeps.
        if (random.chance(0.5)) await thaw
      }
      if (waiting > 0) report.underLoad += 1
      const blows = report.kills + report.zombies
      if (blows % SAY_EVERY === 0) console.log(`      ${plan.role}: ${blows} blows, ${waiting} records wait`)
    }
    await Promise.all(thaws)
    const seconds = Math.round((performance.now() - startedAt) / 1000)
    const endedByThemselves = members.reduce((sum, { kept }) => sum + kept.endedByThemselves(), 0)
    return { ...report, endedByThemselves, seconds }
  }
  return {
    done: strike(),
    async stop() {
      ending.abort()
      for (const { kept } of members) await kept.stop()
    },
  }
}

/** Kills with the freezes spread evenly among them. */
function blowsOf(random: SeededRandom, { kills, zombies }: TormentPlan): ('kills' | 'zombies')[] {
  const blows: ('kills' | 'zombies')[] = Array.from({ length: kills }, () => 'kills')
  for (let zombie = 0; zombie < zombies; zombie++) {
    const stretch = (kills + zombies) / zombies
    blows.splice(Math.floor(zombie * stretch + random.next() * stretch), 0, 'zombies')
  }
  return blows
}

/** Blows between two lines of progress. */
const SAY_EVERY = 10
/** How often records may be gone before a blow until it falls all the same. */
const LOOKS_FOR_LOAD = 50
/** How often one is struck that may still be starting. */
const EARLY_CHANCE = 0.15

/** A member that runs, is awake and, unless `early`, is at work; waits for one where there is none. */
async function oneOf(
  members: readonly Member[],
  early: boolean,
  random: SeededRandom,
  signal: AbortSignal,
): Promise<Member> {
  const limit = performance.now() + READY_LIMIT_MS
  for (;;) {
    const fit = members.filter(
      ({ kept, isFrozen }) => kept.role() !== undefined && !isFrozen && (early || kept.isReady()),
    )
    if (fit.length > 0) return random.pick(fit)
    if (performance.now() > limit) throw new Error(`no process was at work within ${READY_LIMIT_MS} ms`)
    await pause(50, undefined, { signal })
  }
}

async function freeze(random: SeededRandom, member: Member, signal: AbortSignal): Promise<void> {
  const role = member.kept.role()
  if (role === undefined) return
  member.isFrozen = true
  role.kill('SIGSTOP')
  try {
    await pause(random.integer(...FROZEN_MS), undefined, { signal })
  } finally {
    role.kill('SIGCONT')
    member.isFrozen = false
  }
}
