/**
 * Who coordinates a group or a transaction: kafkajs searches too often, too seldom, and not again.
 *
 * It looks coordinators up four times in each transaction, of nine sequential requests: here an answer is cached for a while. It ends a
 * consumer when a broker disconnects while it is asked: here that counts as a coordinator that was not found, and the lookup is repeated.
 * And it sends a member's requests to the broker at which it joined its group until its retries end after a minute, though that broker is
 * unreachable or no longer the coordinator, and then the consumer ends: here the coordinator is looked up again and the request repeated.
 * The generation stays valid, since the new coordinator has read it from the log; a member unknown to it joins again.
 */
import { coalesceAlike } from '../../runtime/async/coalesce.ts'
import { retryFor } from '../../runtime/async/retry.ts'
import { loadInternal, replaceExport } from './internals.ts'
import { isAway } from './reachable-brokers.ts'

interface Broker {
  nodeId: string
}

interface CoordinatorSearch {
  findGroupCoordinatorMetadata(group: { groupId: string; coordinatorType: number }): Promise<{ coordinator: Broker }>
}

interface ConsumerGroup {
  groupId: string
  coordinator: Broker
  cluster: CoordinatorSearch & { findBroker(node: Broker): Promise<Broker> }
  offsetManager: { coordinator: Broker } | null
  heartbeat(options: { interval: number }): Promise<void>
  commitOffsets(offsets?: object): Promise<void>
}

const GROUP = 0
/** After a move a transaction fails, or is tried again, until this is over; those of a busy producer come many times in it. */
const COORDINATOR_KNOWN_MS = 2_000
/** Answers of a broker that does not coordinate the group, or not yet. */
const MOVED = new Set(['NOT_COORDINATOR_FOR_GROUP', 'GROUP_COORDINATOR_NOT_AVAILABLE', 'GROUP_LOAD_IN_PROGRESS'])
const PAUSE_MS = 100
/** The callers repeat what fails; a consumer that stops waits for this. */
const LIMIT_MS = 3_000

/** A cluster as a transactional producer sees it: a coordinator is asked for once in a while. */
export function withKnownCoordinators<T extends CoordinatorSearch>(cluster: T, now: () => number): T {
  const cache = new Map<string, { until: number; metadata: { coordinator: Broker } }>()
  const findGroupCoordinatorMetadata: CoordinatorSearch['findGroupCoordinatorMetadata'] = async group => {
    const key = `${group.coordinatorType} ${group.groupId}`
    const entry = cache.get(key)
    if (entry && now() < entry.until) return entry.metadata
    const metadata = await cluster.findGroupCoordinatorMetadata(group)
    cache.set(key, { until: now() + COORDINATOR_KNOWN_MS, metadata })
    return metadata
  }
  return Object.assign(Object.create(cluster) as T, { findGroupCoordinatorMetadata })
}

/** Comes before what loads the producer. */
export const rememberCoordinators = (): void =>
  replaceExport('producer/eosManager', (open: (options: { cluster: CoordinatorSearch }) => unknown) => {
    return (options: { cluster: CoordinatorSearch }) =>
      open({ ...options, cluster: withKnownCoordinators(options.cluster, () => performance.now()) })
  })

export function searchCoordinatorsAgain(): void {
  const { KafkaJSBrokerNotFound } = loadInternal('errors') as { KafkaJSBrokerNotFound: new (why: string) => Error }
  const { prototype: cluster } = loadInternal('cluster') as { prototype: CoordinatorSearch }
  const find = cluster.findGroupCoordinatorMetadata
  cluster.findGroupCoordinatorMetadata = function (group) {
    return find.call(this, group).catch(error => {
      throw error.name === 'KafkaJSGroupCoordinatorNotFound' ? new KafkaJSBrokerNotFound(error.message) : error
    })
  }
  const { prototype: group } = loadInternal('consumer/consumerGroup') as { prototype: ConsumerGroup }
  const { heartbeat, commitOffsets } = group
  group.heartbeat = function (options) {
    return askCoordinator(this, () => heartbeat.call(this, options))
  }
  group.commitOffsets = function (offsets) {
    return askCoordinator(this, () => commitOffsets.call(this, offsets))
  }
}

/** Partitions are worked on side by side: those that find the same coordinator moved wait for one lookup. */
const searches = new WeakMap<ConsumerGroup, () => Promise<void>>()

function askCoordinator<T>(group: ConsumerGroup, ask: () => Promise<T>): Promise<T> {
  const search = searches.get(group) ?? coalesceAlike(() => lookUp(group))
  searches.set(group, search)
  return retryFor(LIMIT_MS, PAUSE_MS, ask, {
    async shouldRetry({ error }) {
      if (!isAway(error) && !MOVED.has((error as { type?: string }).type ?? '')) return false
      // While no broker knows it, the one that is known is asked again.
      await search().catch(() => undefined)
      return true
    },
  })
}

/** Without the client's own retries, which go on for a minute while no broker answers. */
async function lookUp(group: ConsumerGroup): Promise<void> {
  const { cluster, groupId, offsetManager } = group
  const { coordinator } = await cluster.findGroupCoordinatorMetadata({ groupId, coordinatorType: GROUP })
  group.coordinator = await cluster.findBroker({ nodeId: coordinator.nodeId })
  if (offsetManager) offsetManager.coordinator = group.coordinator
}
