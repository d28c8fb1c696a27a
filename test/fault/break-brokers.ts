/**
 * Plans faults of brokers from a seed, every kind once before any comes again, and carries them out, one at a time: the next begins only when
 * every broker sees every replica in sync again, so no more than one broker is ever away. A fault that did no harm fails the run.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { type ClusterControl, openClusterControl } from '#test/harness/cluster-control.ts'
import { eventually } from '#test/harness/eventually.ts'
import type { OwnBroker } from '#test/harness/own-cluster.ts'
import type { SeededRandom } from '#test/harness/seeded-random.ts'
import type { TestCluster } from '#test/harness/use-cluster.ts'
import type { Direction } from '#test/harness/wire-proxy.ts'
import type { Disturbance } from './keep-running.ts'

/** Those that take a broker away take one: two of three replicas must stay in sync. */
export const FAULT_KINDS = [
  ...(['leader moves', 'kill -9', 'half-open network', 'group coordinators move', 'frozen leader'] as const),
  ...(['transaction coordinators move', 'controlled shutdown', 'cut network', 'preferred elections'] as const),
  ...(['frozen follower', 'slow network', 'rolling restart'] as const),
] as const

export type FaultKind = (typeof FAULT_KINDS)[number]

interface BrokerFault {
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

const DELAY_MS = [100, 600] as const
const DIRECTIONS: readonly BrokerFault['direction'][] = ['to-server', 'to-client', undefined]

/** The faults of a seed, without end. */
export function* planFaults(
  random: SeededRandom,
  {
    kinds,
    brokers,
    pauseMs,
    lastsMs,
  }: {
    /** Each round has all of them, in an order of its own. */
    kinds: readonly FaultKind[]
    brokers: number
    pauseMs: readonly [least: number, most: number]
    lastsMs: readonly [least: number, most: number]
  },
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

/** A cluster must do its part of a fault within this. */
const DONE_LIMIT_MS = 60_000
/** A broker that starts beside a loaded platform needs its session to end, a start, and what it has missed. */
const WHOLE_LIMIT_MS = 120_000
const GROUPS = '__consumer_offsets'
const TRANSACTIONS = '__transaction_state'

interface Actor {
  platform: TestCluster
  control: ClusterControl
  fault: BrokerFault
  broker: OwnBroker
}

/** Carries faults out until there were as many and it has lasted as long; resolves with them, and how often each kind came. */
export async function breakBrokers(
  platform: TestCluster,
  plan: Iterable<BrokerFault>,
  limits: { faults: number; ms: number; signal: AbortSignal },
) {
  const control = openClusterControl(platform)
  const startedAt = performance.now()
  const counts = new Map<FaultKind, number>()
  const disturbances: Disturbance[] = []
  for (const fault of plan) {
    const elapsedMs = performance.now() - startedAt
    if (limits.signal.aborted || (disturbances.length >= limits.faults && elapsedMs >= limits.ms)) break
    await pause(fault.pauseMs, undefined, { signal: limits.signal }).catch(() => undefined)
    const broker = platform.cluster.brokers[fault.broker - 1] as OwnBroker
    const from = Date.now()
    await CARRY_OUT[fault.kind]({ platform, control, fault, broker })
    const overAt = performance.now()
    await control.whole(WHOLE_LIMIT_MS)
    const tookS = (performance.now() - overAt) / 1_000
    disturbances.push({ of: fault.kind, from, to: Date.now() })
    counts.set(fault.kind, (counts.get(fault.kind) ?? 0) + 1)
    const atS = Math.round((performance.now() - startedAt) / 1_000)
    console.log(
      `      ${atS} s: fault ${disturbances.length}, ${fault.kind} (broker ${fault.broker}), whole ${tookS.toFixed(1)} s after it`,
    )
  }
  return { counts, disturbances }
}

const CARRY_OUT: Record<FaultKind, (actor: Actor) => Promise<void>> = {
  'controlled shutdown': actor => restart(actor, actor.broker, 'stop'),
  'kill -9': actor => restart(actor, actor.broker, 'kill'),
  async 'rolling restart'(actor) {
    for (const broker of actor.platform.cluster.brokers) {
      await restart(actor, broker, 'stop')
      await actor.control.whole(WHOLE_LIMIT_MS)
    }
  },
  'frozen leader': freeze,
  async 'frozen follower'(actor) {
    const { control, fault, platform } = actor
    const others = platform.cluster.brokers.map(({ id }) => id).filter(id => id !== fault.broker)
    const other = others[fault.step - 1] as number
    const topics = await topicsOf(control, () => true)
    await control.moveLeaders(topics, leader => (leader === fault.broker ? other : leader), DONE_LIMIT_MS)
    await freeze(actor)
  },
  async 'leader moves'(actor) {
    const topics = await topicsOf(actor.control, name => name.startsWith(actor.platform.namespace))
    await move(actor, [topics[Math.floor(actor.fault.topic * topics.length)] as string])
  },
  async 'preferred elections'(actor) {
    await move(actor, await topicsOf(actor.control, name => name.startsWith(actor.platform.namespace)))
  },
  'group coordinators move': actor => move(actor, [GROUPS]),
  'transaction coordinators move': actor => move(actor, [TRANSACTIONS]),
  'slow network': actor => harmNetwork(actor, ({ network }) => network.delay(actor.fault.delayMs)),
  'cut network': actor => harmNetwork(actor, ({ network }) => network.cut()),
  'half-open network': actor => harmNetwork(actor, ({ network }) => network.stall(actor.fault.direction)),
}

const topicsOf = async (control: ClusterControl, isWanted: (name: string) => boolean): Promise<string[]> =>
  [...new Set((await control.partitions()).map(({ topic }) => topic))].filter(isWanted).sort()

async function move({ platform, control, fault }: Actor, topics: readonly string[]): Promise<void> {
  const size = platform.cluster.brokers.length
  const count = await control.moveLeaders(topics, leader => ((leader - 1 + fault.step) % size) + 1, DONE_LIMIT_MS)
  if (count === 0) throw new Error(`no leader of ${topics.join(', ')} has moved`)
}

async function restart(actor: Actor, broker: OwnBroker, how: 'stop' | 'kill'): Promise<void> {
  const { platform, control, fault } = actor
  await broker[how]()
  try {
    if (broker.isRunning()) throw new Error(`broker ${broker.id} runs on after ${how}`)
    await leftOut(platform, control, broker.id)
    await pause(fault.lastsMs)
  } finally {
    await broker.start()
  }
}

async function freeze({ platform, control, fault, broker }: Actor): Promise<void> {
  broker.freeze()
  try {
    await leftOut(platform, control, broker.id)
    await pause(fault.lastsMs)
  } finally {
    broker.thaw()
  }
}

/** Resolves when another broker sees it in no list of replicas in sync, and leading nothing. */
async function leftOut(platform: TestCluster, control: ClusterControl, id: number): Promise<void> {
  const other = platform.cluster.brokers.find(broker => broker.id !== id)?.id
  const isOut = async (): Promise<boolean> =>
    (await control.partitions(other)).every(({ leader, inSync }) => leader !== id && !inSync.includes(id))
  await eventually(isOut, `broker ${id} to be left out`)
}

async function harmNetwork({ fault, broker }: Actor, harm: (broker: OwnBroker) => void): Promise<void> {
  const { network } = broker
  const before = network.harmed()
  harm(broker)
  try {
    await pause(fault.lastsMs)
    await eventually(() => network.harmed() > before, `clients of broker ${broker.id} to meet its network`)
  } finally {
    network.heal()
  }
  const isUsed = () => network.connections() > 0
  await eventually(isUsed, `clients to reach broker ${broker.id} again`)
}
