/**
 * Requests of an administrator beside topics (topic-admin.ts): rights, the retention of topics, their bytes.
 *
 * Rights are given and never taken away. The retention that brokers have may differ from the catalogue's until the next set-up.
 */
import type { Admin, KafkaConfig } from 'kafkajs'
import { allTopics } from '#schemas/topics.ts'
import { sendRequest } from './client/cluster.ts'
import {
  AclOperationTypes,
  AclPermissionTypes,
  AclResourceTypes,
  ConfigResourceTypes,
  ResourcePatternTypes,
} from './client/kafkajs.ts'
import { Encoder, type WireDecoder } from './client/wire.ts'
import type { KafkaConnection } from './connection.ts'
import { connectCluster } from './range-reader.ts'

export async function withAdmin<T>(
  kafka: Pick<KafkaConnection, 'newClient'>,
  work: (admin: Admin) => Promise<T>,
  settings: Partial<KafkaConfig> = {},
): Promise<T> {
  const admin = kafka.newClient('admin', settings).admin()
  await admin.connect()
  try {
    return await work(admin)
  } finally {
    await admin.disconnect()
  }
}

export type AclOperation = 'READ' | 'WRITE' | 'CREATE' | 'DESCRIBE' | 'DESCRIBE_CONFIGS' | 'ALTER_CONFIGS'

/** A right to be given; a prefix means every name that begins with it. */
export interface Acl {
  principal: string
  resource: 'TOPIC' | 'GROUP' | 'TRANSACTIONAL_ID' | 'CLUSTER'
  name: string
  isPrefix: boolean
  operation: AclOperation
}

/** Gives rights; those that are there already stay as they are. */
export async function applyAcls(kafka: KafkaConnection, acls: readonly Acl[]): Promise<void> {
  const acl = acls.map(({ principal, resource, name, isPrefix, operation }) => ({
    principal,
    host: '*',
    resourceName: name,
    resourceType: AclResourceTypes[resource],
    resourcePatternType: isPrefix ? ResourcePatternTypes.PREFIXED : ResourcePatternTypes.LITERAL,
    operation: AclOperationTypes[operation],
    permissionType: AclPermissionTypes.ALLOW,
  }))
  await withAdmin(kafka, admin => admin.createAcls({ acl }))
}

export interface LiveRetention {
  isCompacted: boolean
  /** Milliseconds; -1: for ever. */
  ms: number
  /** Of each partition; -1: without limit. */
  bytes: number
}

export async function liveRetentions(kafka: KafkaConnection): Promise<Map<string, LiveRetention>> {
  return withAdmin(kafka, async admin => {
    const existing = new Set(await admin.listTopics())
    const names = allTopics.map(({ name }) => kafka.namespace + name).filter(name => existing.has(name))
    if (names.length === 0) return new Map()
    const configNames = ['cleanup.policy', 'retention.ms', 'retention.bytes']
    const { resources } = await admin.describeConfigs({
      includeSynonyms: false,
      resources: names.map(name => ({ type: ConfigResourceTypes.TOPIC, name, configNames })),
    })
    return new Map(
      resources.map(({ resourceName, configEntries }) => {
        const settings = new Map(configEntries.map(({ configName, configValue }) => [configName, configValue]))
        const retention = {
          isCompacted: settings.get('cleanup.policy')?.includes('compact') ?? false,
          ms: Number(settings.get('retention.ms') ?? -1),
          bytes: Number(settings.get('retention.bytes') ?? -1),
        }
        return [resourceName.slice(kafka.namespace.length), retention]
      }),
    )
  })
}

interface PartitionBytes {
  topic: string
  partition: number
  bytes: number
}

/** Bytes on disk of every partition of the brokers: of its replicas the largest, since the others may be on their way. */
export async function readDiskBytes(kafka: KafkaConnection): Promise<PartitionBytes[]> {
  const cluster = await connectCluster(kafka, 'disk-bytes', [], DISK_BYTES_LIMIT_MS)
  const request = { ...DESCRIBE_LOG_DIRS, body: new Encoder().writeInt32(ALL_TOPICS) }
  const largest = new Map<string, PartitionBytes>()
  try {
    for (const { nodeId } of cluster.brokerPool.metadata?.brokers ?? []) {
      for (const one of await sendRequest(await cluster.findBroker({ nodeId }), request, decodeLogDirs)) {
        const name = `${one.topic}/${one.partition}`
        if ((largest.get(name)?.bytes ?? -1) < one.bytes) largest.set(name, one)
      }
    }
  } finally {
    await cluster.disconnect()
  }
  return [...largest.values()]
}

/** Short, since a person waits at the terminal. */
const DISK_BYTES_LIMIT_MS = 5_000
const DESCRIBE_LOG_DIRS = { apiName: 'DescribeLogDirs', apiKey: 35, apiVersion: 1 }
const ALL_TOPICS = -1

function decodeLogDirs(decoder: WireDecoder): PartitionBytes[] {
  decoder.readInt32() // throttle time
  return decoder
    .readArray(dirs => {
      dirs.readInt16() // error code: a directory that is offline lists nothing
      dirs.readString()
      return dirs
        .readArray(one => {
          const topic = one.readString()
          return one.readArray(each => {
            const partition = each.readInt32()
            const bytes = Number(each.readInt64().toString())
            each.readInt64() // distance of a replica that is being filled
            return { topic, partition, bytes, isFuture: each.readBoolean() }
          })
        })
        .flat()
    })
    .flat()
    .filter(({ isFuture }) => !isFuture)
    .map(({ topic, partition, bytes }) => ({ topic, partition, bytes }))
}
