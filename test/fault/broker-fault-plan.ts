/**
 * The faults that three brokers meet, one after the other, from a seed.
 *
 * The same seed plans the same faults and pauses, and every kind comes once before any comes again.
 */
import type { SeededRandom } from '#test/harness/seeded-random.ts'
import type { Direction } from '#test/harness/wire-proxy.ts'

/** What may happen to a cluster. Those that take a broker away take one: two of three replicas must stay in sync. */
export const FAULT_KINDS = [
  ...(['leader moves', 'kill -9', 'half-open network', 'group coordinators move', 'frozen leader'] as const),
  ...(['transaction coordinators move', 'controlled shutdown', 'cut network', 'preferred elections'] as const),
  ...(['frozen follower', 'slow network', 'rolling restart'] as const),
] as const

/** A kind of fault. */
export type FaultKind = (typeof FAULT_KINDS)[number]

/** A planned fault. */
export interface BrokerFault {
  kind: FaultKind
  /** The broker that it is about, from 1. */
  broker: number
  /** Quiet before it, in milliseconds. */
  pauseMs: number
  /** How long a network fault lasts, or a broker stays away, in milliseconds. */
  lastsMs: number
  /** Of a slow network. */
  delayMs: number
  /** Which way bytes vanish on a half-open network; undefined: both. */
  direction: Direction | undefined
  /** Picks the topic whose leaders move, in [0, 1). */
  topic: number
  /** How many brokers further a leader moves: 1 or 2. */
  step: number
}

/** How faults are planned. */
export interface FaultPlan {
  /** Each round has all of them, in an order of its own. */
  kinds: readonly FaultKind[]
  brokers: number
  pauseMs: readonly [least: number, most: number]
  lastsMs: readonly [least: number, most: number]
}

const DELAY_MS = [100, 600] as const
const DIRECTIONS: readonly BrokerFault['direction'][] = ['to-server', 'to-client', undefined]

/** The faults of a seed, without end. */
export function* planFaults(
  random: SeededRandom,
  { kinds, brokers, pauseMs, lastsMs }: FaultPlan,
): Generator<BrokerFault, never> {
  for (;;) {
    for (const kind of random.shuffle(kinds)) {
      yield {
        kind,
        broker: random.integer(1, brokers),
        pauseMs: random.integer(...pauseMs),
        lastsMs: random.integer(...lastsMs),
        delayMs: random.integer(...DELAY_MS),
        direction: random.pick(DIRECTIONS),
        topic: random.next(),
        step: random.integer(1, brokers - 1),
      }
    }
  }
}
