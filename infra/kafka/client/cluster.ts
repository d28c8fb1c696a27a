/**
 * The client's own cluster, bare: metadata, leaders and connections, for readers without a group.
 *
 * Opens no connection before `connect`.
 */
import type { KafkaConnection } from '../connection.ts'
import type { FetchingBroker } from './fetch-decoding.ts'
import { loadInternal } from './internals.ts'
import { logLevel } from './kafkajs.ts'
import { Decoder, type WireDecoder, type WireEncoder } from './wire.ts'

interface ClusterBroker extends FetchingBroker {
  listOffsets(request: object): Promise<{ responses: { partitions: { offset: string }[] }[] }>
  leaveGroup(request: { groupId: string; memberId: string }): Promise<unknown>
  connectionPool: {
    send<T>(exchange: { request: object; response: { decode: unknown; parse: (decoded: T) => T } }): Promise<T>
  }
}

export const sendRequest = <T>(
  { connectionPool }: ClusterBroker,
  { body, ...request }: { apiName: string; apiKey: number; apiVersion: number; body: WireEncoder },
  decode: (answer: WireDecoder) => T,
): Promise<T> =>
  connectionPool.send({
    request: { ...request, encode: async () => body },
    response: { decode: async (bytes: Buffer) => decode(new Decoder(bytes)), parse: decoded => decoded },
  })

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

/** `name` is part of the id by which brokers know this client. */
export function openCluster(
  { brokers, namespace, role, security }: Pick<KafkaConnection, 'brokers' | 'namespace' | 'role' | 'security'>,
  name: string,
): Cluster {
  return new ClusterClass({
    logger: createLogger({ level: logLevel.NOTHING, logCreator: () => () => undefined }),
    ...security(),
    brokers: [...brokers],
    clientId: `${namespace}${role}-${name}`,
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
