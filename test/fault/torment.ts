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
  /** Records that wait for the pack, asked before each blow: only a blow under load proves something. */
  backlog(): Promise<number>
  /** Waiting records that keep a process busy for a while. */
  work: number
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
  role: SpawnedRole | undefined
  isFrozen: boolean
}

/** Longer than the 10 s after which a group gives a silent member's partitions away. */
const FROZEN_MS = [11_500, 15_000] as const
const RESTART_MS = [0, 2_500] as const

/** Starts a pack and begins to torment it. */
export function torment(random: SeededRandom, plan: TormentPlan): Pack {
  const members: Member[] = Array.from({ length: plan.processes }, () => ({ role: undefined, isFrozen: false }))
  const ending = new AbortController()
  let endedByThemselves = 0

  /** Keeps a member running until the end. */
  const keep = async (member: Member, restarts: SeededRandom): Promise<void> => {
    while (!ending.signal.aborted) {
      const role = await plan.start()
      member.role = role
      const { signal } = await role.ended
      member.role = undefined
      if (ending.signal.aborted) return
      if (signal !== 'SIGKILL') {
        endedByThemselves += 1
        console.log(`      ${plan.role} ended by itself: ${role.lines().slice(-3).join('\n      ')}`)
      }
      await pause(restarts.integer(...RESTART_MS))
    }
  }
  const keeping = members.map((member, at) => keep(member, randomOf(random.seed + at)))
  const strike = async (): Promise<TormentReport> => {
    const startedAt = performance.now()
    const report = { role: plan.role, kills: 0, zombies: 0, underLoad: 0 }
    const thaws: Promise<void>[] = []
    for (const blow of blowsOf(random, plan)) {
      await pause(random.integer(...plan.pauseMs), undefined, { signal: ending.signal })
      if (await hasWork(plan, ending.signal)) report.underLoad += 1
      await pause(random.integer(...INTO_WORK_MS), undefined, { signal: ending.signal })
      const victim = await oneOf(random, members, ending.signal)
      report[blow] += 1
      if (blow === 'kills') victim.role?.kill('SIGKILL')
      else {
        const thaw = freeze(random, victim, ending.signal)
        thaws.push(thaw)
        // Half of the time the others are struck while this one sleeps.
        if (random.chance(0.5)) await thaw
      }
    }
    await Promise.all(thaws)
    const seconds = Math.round((performance.now() - startedAt) / 1000)
    return { ...report, endedByThemselves, seconds }
  }
  return {
    done: strike(),
    async stop() {
      ending.abort()
      for (const member of members) await member.role?.stop()
      await Promise.all(keeping)
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

const VICTIM_LIMIT_MS = 60_000
const WORK_LIMIT_MS = 5_000
/** How far into its work a process is struck. */
const INTO_WORK_MS = [0, 300] as const

/** Waits for the next wave of records, so that most blows fall while a batch is being written. */
async function hasWork({ backlog, work }: TormentPlan, signal: AbortSignal): Promise<boolean> {
  const limit = performance.now() + WORK_LIMIT_MS
  let waiting = await backlog()
  while (waiting < work && performance.now() < limit) {
    await pause(20, undefined, { signal })
    waiting = await backlog()
  }
  return waiting > 0
}

/** A member that runs and is awake; waits for one where all are down. */
async function oneOf(random: SeededRandom, members: readonly Member[], signal: AbortSignal): Promise<Member> {
  const limit = performance.now() + VICTIM_LIMIT_MS
  for (;;) {
    const awake = members.filter(({ role, isFrozen }) => role !== undefined && !isFrozen)
    if (awake.length > 0) return random.pick(awake)
    if (performance.now() > limit) throw new Error(`no process came up again within ${VICTIM_LIMIT_MS} ms`)
    await pause(100, undefined, { signal })
  }
}

async function freeze(random: SeededRandom, member: Member, signal: AbortSignal): Promise<void> {
  const { role } = member
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
