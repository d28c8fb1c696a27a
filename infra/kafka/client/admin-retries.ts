/**
 * kafkajs's admin fails a request at the first broker that is unreachable or no longer leads, although others answer. Here
 * idempotent requests are repeated with new metadata until leaders and coordinators have moved.
 *
 * While no broker answers at all a request fails as before: a command then reports it soon.
 */
import { retryFor, succeeds } from '../../runtime/async/retry.ts'
import { replaceExport } from './internals.ts'
import { isAway } from './reachable-brokers.ts'

interface Options {
  cluster: { refreshMetadata(): Promise<void> }
}

/** Those whose repeat changes nothing. */
const REPEATABLE = [
  ...['listTopics', 'fetchTopicMetadata', 'fetchTopicOffsets', 'fetchTopicOffsetsByTimestamp', 'describeCluster'],
  ...['listGroups', 'describeGroups', 'fetchOffsets', 'setOffsets', 'describeConfigs', 'alterConfigs', 'createTopics'],
]
/** Answers of brokers while a partition or a group is moving. */
const MOVING = new Set([
  ...['LEADER_NOT_AVAILABLE', 'NOT_LEADER_FOR_PARTITION', 'FENCED_LEADER_EPOCH', 'UNKNOWN_LEADER_EPOCH'],
  ...['REPLICA_NOT_AVAILABLE', 'OFFSET_NOT_AVAILABLE', 'GROUP_LOAD_IN_PROGRESS', 'GROUP_COORDINATOR_NOT_AVAILABLE'],
  ...['NOT_COORDINATOR_FOR_GROUP', 'NOT_CONTROLLER', 'REQUEST_TIMED_OUT'],
])
/** A cluster that is busy may take a minute to miss a broker and to elect others in its place. */
const LIMIT_MS = 120_000
const PAUSE_MS = 200

export const correctAdmin = (): void =>
  replaceExport(
    'admin',
    (open: (options: Options) => Record<string, (...args: unknown[]) => Promise<unknown>>) => (options: Options) => {
      const admin = open(options)
      const repeated = REPEATABLE.flatMap(name => {
        const call = admin[name]
        return call === undefined ? [] : [[name, (...args: unknown[]) => repeat(options, () => call(...args))]]
      })
      return { ...admin, ...Object.fromEntries(repeated) }
    },
  )

const repeat = ({ cluster }: Options, call: () => Promise<unknown>): Promise<unknown> =>
  retryFor(LIMIT_MS, PAUSE_MS, call, {
    shouldRetry: async ({ error }) => isPassing(error) && (await succeeds(cluster.refreshMetadata())),
  })

/** The client's own retries wrap what they gave up on. */
function isPassing(error: unknown): boolean {
  const { type, name, cause } = error as { type?: string; name: string; cause?: { type?: string } }
  const hasNoCoordinator = name === 'KafkaJSGroupCoordinatorNotFound'
  return hasNoCoordinator || isAway(error) || isAway(cause) || MOVING.has(type ?? '') || MOVING.has(cause?.type ?? '')
}
