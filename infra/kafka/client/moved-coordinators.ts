/**
 * kafkajs sends a member's requests to the broker at which it joined its group until its retries end after a minute, though that broker is
 * unreachable or no longer the coordinator: commits fail meanwhile, and then the consumer ends. Here the coordinator is looked up again and
 * the request repeated. The generation stays valid, since the new coordinator has read it from the log; a member unknown to it joins again.
 *
 * Tested on three real brokers, whose coordinators move, in test/fault/three-brokers.test.ts.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { loadInternal } from './internals.ts'
import { isAway } from './reachable-brokers.ts'

interface Broker {
  nodeId: string
}

interface Cluster {
  findGroupCoordinatorMetadata(wanted: { groupId: string; coordinatorType: number }): Promise<{ coordinator: Broker }>
  findBroker(node: Broker): Promise<Broker>
}

interface ConsumerGroup {
  groupId: string
  coordinator: Broker
  cluster: Cluster
  offsetManager: { coordinator: Broker } | null
  heartbeat(options: { interval: number }): Promise<void>
  commitOffsets(offsets?: object): Promise<void>
}

const GROUP = 0
/** Answers of a broker that does not coordinate the group, or not yet. */
const MOVED = new Set(['NOT_COORDINATOR_FOR_GROUP', 'GROUP_COORDINATOR_NOT_AVAILABLE', 'GROUP_LOAD_IN_PROGRESS'])
const PAUSE_MS = 100
/** The callers repeat what fails; a consumer that stops waits for this. */
const LIMIT_MS = 3_000

/** Puts the search for the new coordinator around what a member asks of the old one. */
export function followCoordinators(): void {
  const { prototype } = loadInternal('consumer/consumerGroup') as { prototype: ConsumerGroup }
  const { heartbeat, commitOffsets } = prototype
  prototype.heartbeat = function (options) {
    return askCoordinator(this, () => heartbeat.call(this, options))
  }
  prototype.commitOffsets = function (offsets) {
    return askCoordinator(this, () => commitOffsets.call(this, offsets))
  }
}

async function askCoordinator<T>(group: ConsumerGroup, ask: () => Promise<T>): Promise<T> {
  const startedAt = performance.now()
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (!hasMoved(error) || performance.now() - startedAt > LIMIT_MS) throw error
      // While no broker knows it, the one that is known is asked again.
      await searched(group).catch(() => undefined)
    }
  }
}

/** Partitions are worked on side by side: those that find the same coordinator moved wait for one lookup. */
const searches = new WeakMap<ConsumerGroup, Promise<void>>()

function searched(group: ConsumerGroup): Promise<void> {
  const running = searches.get(group)
  if (running !== undefined) return running
  const search = lookUp(group).finally(() => searches.delete(group))
  searches.set(group, search)
  return search
}

/** Without the client's own retries, which go on for a minute while no broker answers. */
async function lookUp(group: ConsumerGroup): Promise<void> {
  await delay(PAUSE_MS)
  const wanted = { groupId: group.groupId, coordinatorType: GROUP }
  const { coordinator } = await group.cluster.findGroupCoordinatorMetadata(wanted)
  const broker = await group.cluster.findBroker({ nodeId: coordinator.nodeId })
  group.coordinator = broker
  if (group.offsetManager) group.offsetManager.coordinator = broker
}

const hasMoved = (error: unknown): boolean => isAway(error) || MOVED.has((error as { type?: string }).type ?? '')
