/**
 * Loads a route of the platform and a bare Express route that sends the same bytes, in turns.
 *
 * Invariant: both get the same requests in the same order from the same client.
 */
import type { BenchContext } from './bench.ts'
import type { Turn } from './entry.ts'
import { type HttpTarget, type LoadResult, loadFor } from './http-load.ts'
import type { RoleProcess } from './role-process.ts'
import { startYardstick } from './yardstick.ts'
import type { ServeRequest, Serving } from './yardsticks/bare-express.ts'

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
const TURNS = 15
const TURN_MS = 1_000
/** The engine works for that long on what it has not run before: after 2 s a request still took twice the CPU. */
const WARM_UP_MS = 8_000
const EXPRESS = new URL('./yardsticks/bare-express.ts', import.meta.url)

/** One slice of load on one server. */
type Slice = LoadResult & { cpuUs: number }

/** A route of the platform, and the process that serves it. */
export interface RouteUnderLoad extends ServeRequest {
  process: RoleProcess
}

/** Measures a route by some questions, each of which it answers the same every time. */
export async function measureRoute(context: BenchContext, measured: RouteUnderLoad): Promise<HttpTurns> {
  const { process, ...route } = measured
  const express = startYardstick(EXPRESS)
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
    for (const target of [ours, bare]) await loadFor(target, WARM_UP_MS)
    const ourCpu = async (): Promise<number> => (await process.figures()).cpuSeconds
    const bareCpu = (): Promise<number> => express.ask<number>('cpuSeconds', null)
    const pairs: [Slice, Slice][] = []
    for (let turn = 0; turn < count; turn++) {
      context.signal.throwIfAborted()
      context.say(`turn ${turn + 1} of ${count}`)
      pairs.push([await slice(ours, ourCpu), await slice(bare, bareCpu)])
      context.log.info({ turn, pair: pairs.at(-1) }, 'route')
    }
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

async function slice(target: HttpTarget, cpuSeconds: () => Promise<number>): Promise<Slice> {
  const before = await cpuSeconds()
  const load = await loadFor(target, TURN_MS)
  const cpuUs = (((await cpuSeconds()) - before) / load.requests) * 1e6
  return { ...load, cpuUs }
}
