/**
 * Loads a route of the platform and a bare Express route that sends the same bytes, in turns.
 *
 * Both get the same requests in the same order from the same client, each turn from where its last one ended.
 */
import { startBaseline } from './baseline.ts'
import type { ServeRequest, Serving } from './baselines/bare-express.ts'
import type { BenchContext } from './bench.ts'
import type { Turn } from './entry.ts'
import { type HttpTarget, type LoadResult, loadFor } from './http-load.ts'
import type { RoleProcess } from './role-process.ts'

/** What the turns measured. */
export interface HttpTurns {
  /** Requests a second. */
  rate: Turn[]
  /** Microseconds of CPU in the server's own process, a request. */
  cpu: Turn[]
  p50Ms: Turn[]
  p99Ms: Turn[]
  /** Bytes of a body. */
  bytes: number
}

/** Short ones in close succession: a shared machine's state changes within seconds, for both alike. */
const TURNS = 20
const TURN_MS = 600
/** The engine works for that long on what it has not run before: after 2 s a request still took twice the CPU. */
const WARM_UP_MS = 8_000
const EXPRESS = new URL('./baselines/bare-express.ts', import.meta.url)

/** One slice of load on one server. */
type Slice = LoadResult & { cpuUs: number }

/** A route of the platform, and the process that serves it. */
export interface RouteUnderLoad extends ServeRequest {
  process: RoleProcess
  /** Runs the turns beside something else. */
  beside?(turns: () => Promise<void>): Promise<void>
}

/** Measures a route by some questions, each of which it answers the same every time but for what changes beside it. */
export async function measureRoute(context: BenchContext, measured: RouteUnderLoad): Promise<HttpTurns> {
  const { process, beside = (turns: () => Promise<void>) => turns(), ...route } = measured
  const express = startBaseline(EXPRESS)
  try {
    context.say(`keeping ${route.questions.length} answers`)
    const questions = route.questions.map((question, asked) => ({
      ...question,
      path: `${question.path}${question.path.includes('?') ? '&' : '?'}asked=${asked}`,
    }))
    const ours: HttpTarget = { ...route, questions }
    const serving = await express.ask<Serving>('serve', ours)
    const bare: HttpTarget = { ...ours, baseUrl: serving.baseUrl }
    const count = context.isQuick ? 2 : TURNS
    context.say('warming up')
    const asked = new Map<HttpTarget, number>()
    for (const target of [ours, bare]) asked.set(target, (await loadFor(target, WARM_UP_MS)).requests)
    const load = async (target: HttpTarget, cpuSeconds: () => Promise<number>): Promise<Slice> => {
      const first = asked.get(target) ?? 0
      const measured = await slice(target, cpuSeconds, first)
      asked.set(target, first + measured.requests)
      return measured
    }
    const ourCpu = async (): Promise<number> => (await process.figures()).cpuSeconds
    const bareCpu = (): Promise<number> => express.ask<number>('cpuSeconds', null)
    const pairs: [Slice, Slice][] = []
    await beside(async () => {
      for (let turn = 0; turn < count; turn++) {
        context.signal.throwIfAborted()
        context.say(`turn ${turn + 1} of ${count}`)
        // Each comes first as often: a machine that warms up or tires does so for both.
        const early = turn % 2 === 0 ? undefined : await load(bare, bareCpu)
        const own = await load(ours, ourCpu)
        pairs.push([own, early ?? (await load(bare, bareCpu))])
      }
    })
    context.log.info({ pairs }, 'route')
    const turnsOf = (figure: keyof Slice): Turn[] =>
      pairs.map(([value, against]) => ({ value: value[figure], against: against[figure] }))
    return {
      rate: turnsOf('requestsPerSecond'),
      cpu: turnsOf('cpuUs'),
      p50Ms: turnsOf('p50Ms'),
      p99Ms: turnsOf('p99Ms'),
      bytes: serving.bytes,
    }
  } finally {
    await express.stop()
  }
}

async function slice(target: HttpTarget, cpuSeconds: () => Promise<number>, first: number): Promise<Slice> {
  const before = await cpuSeconds()
  const load = await loadFor(target, TURN_MS, first)
  const cpuUs = (((await cpuSeconds()) - before) / load.requests) * 1e6
  return { ...load, cpuUs }
}
