/**
 * The client's own cluster, bare: metadata, leaders and connections, for readers without a group.
 *
 * Opens no connection before `connect`.
 */
import type { ClientSecurity } from '../connection.ts'
import type { FetchingBroker } from './fetch-decoding.ts'
import { loadInternal } from './internals.ts'
import { logLevel } from './kafkajs.ts'
import type { WireConnection } from './wire.ts'

interface ClusterBroker extends FetchingBroker {
  listOffsets(request: object): Promise<{ responses: { partitions: { offset: string }[] }[] }>
  leaveGroup(request: { groupId: string; memberId: string }): Promise<unknown>
  connectionPool: WireConnection
}

export interface Cluster {
  connect(): Promise<void>
  disconnect(): Promise<void>
  addMultipleTargetTopics(topics: string[]): Promise<void>
  refreshMetadataIfNecessary(): Promise<void>
  refreshMetadata(): Promise<void>
  findLeaderForPartitions(topic: string, partitions: number[]): Record<string, number[]>
  findBroker(node: { nodeId: string }): Promise<ClusterBroker>
  findControllerBroker(): Promise<ClusterBroker>
  findGroupCoordinator(group: { groupId: string }): Promise<ClusterBroker>
  brokerPool: { metadata: { brokers: { nodeId: string }[] } | null }
}

const ClusterClass = loadInternal('cluster') as new (options: object) => Cluster
const { createLogger } = loadInternal('loggers') as { createLogger(options: object): unknown }

export function openCluster(options: {
  brokers: readonly string[]
  clientId: string
  security(): ClientSecurity
}): Cluster {
  return new ClusterClass({
    logger: createLogger({ level: logLevel.NOTHING, logCreator: () => () => undefined }),
    ...options.security(),
    brokers: [...options.brokers],
    clientId: options.clientId,
    connectionTimeout: 3_000,
    // A frozen broker costs a reader this once, a process that starts too; brokers answer reads after a second at most.
    requestTimeout: 10_000,
    enforceRequestTimeout: true,
    metadataMaxAge: 300_000,
    allowAutoTopicCreation: false,
    // Fails soon while brokers are away: the caller decides whether to retry.
    retry: { initialRetryTime: 50, maxRetryTime: 500, retries: 6 },
  })
}
