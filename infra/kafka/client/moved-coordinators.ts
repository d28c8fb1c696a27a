/**
 * kafkajs asks the broker at which a member joined its group for as long as its retries last, a minute, though that broker is away or
 * coordinates the group no more: commits fail all the while, and then the consumer ends. Here the coordinator is looked up again and asked
 * the same. The generation stands, since the new one has read it from the log; a member that it does not know is answered so, and joins.
 *
 * Held on three real brokers, of which the coordinator is stopped, in test/integration/missing-broker.test.ts.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { loadInternal } from './internals.ts'
import { isAway } from './reachable-brokers.ts'

interface Broker {
  nodeId: string
}

interface ConsumerGroup {
  groupId: string
  sessionTimeout: number
  coordinator: Broker
  cluster: { findGroupCoordinator(group: { groupId: string }): Promise<Broker> }
  offsetManager: { coordinator: Broker } | null
  heartbeat(options: { interval: number }): Promise<void>
  commitOffsets(offsets?: object): Promise<void>
}

/** What a broker answers that does not coordinate the group, or not yet. */
const MOVED = new Set(['NOT_COORDINATOR_FOR_GROUP', 'GROUP_COORDINATOR_NOT_AVAILABLE', 'GROUP_LOAD_IN_PROGRESS'])
const PAUSE_MS = 100

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

/** A group that was not heard for the length of a session is to be joined again, which the caller's own retries do. */
async function askCoordinator<T>(group: ConsumerGroup, ask: () => Promise<T>): Promise<T> {
  const startedAt = performance.now()
  for (;;) {
    try {
      return await ask()
    } catch (error) {
      if (!hasMoved(error) || performance.now() - startedAt > group.sessionTimeout) throw error
      await searched(group)
    }
  }
}

/** Partitions are worked on side by side: those that meet the same move wait for one search. */
const searches = new WeakMap<ConsumerGroup, Promise<void>>()

function searched(group: ConsumerGroup): Promise<void> {
  const running = searches.get(group)
  if (running !== undefined) return running
  const search = (async () => {
    await delay(PAUSE_MS)
    const coordinator = await group.cluster.findGroupCoordinator({ groupId: group.groupId })
    group.coordinator = coordinator
    if (group.offsetManager) group.offsetManager.coordinator = coordinator
  })().finally(() => searches.delete(group))
  searches.set(group, search)
  return search
}

const hasMoved = (error: unknown): boolean => isAway(error) || MOVED.has((error as { type?: string }).type ?? '')
