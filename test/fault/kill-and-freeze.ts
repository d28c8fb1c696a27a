/**
 * Kills and freezes processes of a role at random moments and starts them again, as a supervisor would.
 *
 * States of a member: running -> (killed | ended by itself) -> waiting -> running, and running -> frozen -> running.
 * A frozen one is stopped longer than its group session lasts, so that it wakes as a zombie whose work
 * another has taken over. A fault is a kill or a freeze. The same seed plans the same faults and pauses; after the last
 * fault every member is awake; a process that ended by itself is started again and counted.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { randomOf, type SeededRandom } from '#test/harness/seeded-random.ts'
import type { SpawnedRole } from '#test/harness/spawn-role.ts'
import { type Kept, keepRunning, READY_LIMIT_MS, SAYS_WHY } from './keep-running.ts'
import { FROZEN_MS } from './kill-in-rounds.ts'

/** How the processes of a role are killed and frozen. */
export interface KillPlan {
  /** What the processes run, for the report. */
  role: string
  processes: number
  kills: number
  freezes: number
  /** Pause before each fault, in milliseconds. */
  pauseMs: readonly [least: number, most: number]
  start(): Promise<SpawnedRole>
  /** Resolves when records begin to arrive: only a fault under load proves something. */
  work(): Promise<void>
  /** How long after its work begins a process is killed or frozen, in milliseconds. */
  intoWorkMs: readonly [least: number, most: number]
  /** Records that wait for the processes, asked right before each fault. */
  backlog(): Promise<number>
}

/** What was done to the processes, and what they did. */
export interface KillReport {
  role: string
  kills: number
  freezes: number
  /** Faults at a time when records waited. */
  underLoad: number
  /** Processes that ended by themselves, since they lost a dependency or a partition. */
  endedByThemselves: number
  seconds: number
}

/** Processes that are killed, frozen and started again until they are stopped. */
export interface KillRun {
  /** Resolves when every fault of the plan has happened and all members run again; rejects when stopped before. */
  readonly done: Promise<KillReport>
  stop(): Promise<void>
}

interface Member {
  kept: Kept
  isFrozen: boolean
}

/** Starts the processes, and begins to kill and freeze them. */
export function killAndFreeze(random: SeededRandom, plan: KillPlan): KillRun {
  const members: Member[] = Array.from({ length: plan.processes }, (_, at) => ({
    kept: keepRunning({ name: plan.role, random: randomOf(random.seed + at), start: plan.start, mayEnd: SAYS_WHY }),
    isFrozen: false,
  }))
  const ending = new AbortController()
  /** A member that runs on when the work begins, and what waits then; the wait may outlast one that ends by itself. */
  const victimAtWork = async (): Promise<{ victim: Member; waiting: number }> => {
    for (let attempt = 1; ; attempt++) {
      const victim = await oneOf(members, random.chance(EARLY_CHANCE), random, ending.signal)
      await plan.work()
      await pause(random.integer(...plan.intoWorkMs), undefined, { signal: ending.signal })
      // Other members may have done all of it meanwhile; after the last attempt the fault happens without load.
      const waiting = await plan.backlog()
      if (victim.kept.role() !== undefined && (waiting > 0 || attempt >= LOAD_ATTEMPTS)) return { victim, waiting }
    }
  }
  const run = async (): Promise<KillReport> => {
    const startedAt = performance.now()
    const report = { role: plan.role, kills: 0, freezes: 0, underLoad: 0 }
    const thaws: Promise<void>[] = []
    for (const fault of faultsOf(random, plan)) {
      await pause(random.integer(...plan.pauseMs), undefined, { signal: ending.signal })
      const { victim, waiting } = await victimAtWork()
      report[fault] += 1
      if (fault === 'kills') victim.kept.role()?.kill('SIGKILL')
      else {
        const thaw = freeze(random, victim, ending.signal)
        thaws.push(thaw)
        // Half of the time others are killed or frozen while this one is frozen.
        if (random.chance(0.5)) await thaw
      }
      if (waiting > 0) report.underLoad += 1
      const faults = report.kills + report.freezes
      if (faults % SAY_EVERY === 0) console.log(`      ${plan.role}: ${faults} faults, ${waiting} records wait`)
    }
    await Promise.all(thaws)
    const seconds = Math.round((performance.now() - startedAt) / 1000)
    const endedByThemselves = members.reduce((sum, { kept }) => sum + kept.endedByThemselves(), 0)
    return { ...report, endedByThemselves, seconds }
  }
  const done = run()
  // A run that is stopped early rejects; the caller that stopped it no longer waits for its report.
  done.catch(() => undefined)
  return {
    done,
    async stop() {
      ending.abort()
      for (const { kept } of members) await kept.stop()
    },
  }
}

/** Kills with the freezes spread evenly among them. */
function faultsOf(random: SeededRandom, { kills, freezes }: KillPlan): ('kills' | 'freezes')[] {
  const faults: ('kills' | 'freezes')[] = Array.from({ length: kills }, () => 'kills')
  for (let freeze = 0; freeze < freezes; freeze++) {
    const stretch = (kills + freezes) / freezes
    faults.splice(Math.floor(freeze * stretch + random.next() * stretch), 0, 'freezes')
  }
  return faults
}

/** Faults between two lines of progress. */
const SAY_EVERY = 10
/** How often a fault waits for a moment with records before it happens without. */
const LOAD_ATTEMPTS = 50
/** How often one is chosen that may still be starting. */
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
