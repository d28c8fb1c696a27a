/**
 * Creates the catalogue's topics, and gives existing ones the settings that they lack.
 *
 * For the set-up step alone. Invariant: an existing topic is never deleted or given fewer
 * partitions; a catalogue that asks for another number is refused, because keys would move. A setting that an operator
 * has made stays, unless records would be lost or refused with it.
 */
import type { Admin, ITopicConfig } from 'kafkajs'
import { allTopics, type TopicDefinition } from '#schemas/topics.ts'
import { retryFor } from '../runtime/async/retry.ts'
import { withAdmin } from './admin.ts'
import { openCluster, sendRequest } from './client/cluster.ts'
import { ConfigResourceTypes } from './client/kafkajs.ts'
import { Encoder, type WireDecoder, type WireEncoder } from './client/wire.ts'
import type { KafkaConnection } from './connection.ts'
import { UnfitCluster } from './refusal.ts'

/** A transaction of `book` holds a whole refresh; its changelog part goes to one partition in one batch. */
const MAX_MESSAGE_BYTES = 16 * 2 ** 20

/** Where a setting comes from: the topic's own configuration. */
const OWN_SETTING = 1
/** How long brokers that are starting are waited for before there are too few. */
const BROKERS_LIMIT_MS = 10_000
const DEFAULT_REPLICAS = 3
const UNCLEAN = 'unclean.leader.election.enable'
const MIN_IN_SYNC = 'min.insync.replicas'

/** Without these, records are refused, ordered otherwise or forgotten: they are set whatever a topic has. */
const NEEDED = ['max.message.bytes', 'message.timestamp.type', 'cleanup.policy']

export async function setUpTopics(kafka: KafkaConnection): Promise<{ created: number; changed: string[] }> {
  return withAdmin(kafka, async admin => {
    const { factor, inSync } = await replicationOf(kafka, admin)
    const existing = new Set(await admin.listTopics())
    const named = allTopics.map(topic => ({ ...topic, name: kafka.namespace + topic.name }))
    const missing = named.filter(({ name }) => !existing.has(name))
    const present = named.filter(({ name }) => existing.has(name))
    const changes = present.length > 0 ? await changesOf(admin, present, inSync) : new Map<string, TopicSettings>()
    const topicOf = (topic: TopicDefinition): ITopicConfig => {
      const settings = { ...settingsOf(topic), [MIN_IN_SYNC]: String(inSync) }
      const configEntries = Object.entries(settings).map(([name, value]) => ({ name, value }))
      return { topic: topic.name, numPartitions: topic.partitions, replicationFactor: factor, configEntries }
    }
    if (missing.length > 0) await createTopics(admin, missing.map(topicOf))
    if (changes.size > 0) await setTopicSettings(kafka, changes)
    return { created: missing.length, changed: [...changes.keys()] }
  })
}

/** Replicas of a topic and how many must hold a record: those of the settings, else the most that the cluster has, up to three. */
async function replicationOf(kafka: KafkaConnection, admin: Admin): Promise<{ factor: number; inSync: number }> {
  const { replicationFactor, minInsyncReplicas } = kafka.settings
  const countBrokers = async (): Promise<number> => {
    const { length } = (await admin.describeCluster()).brokers
    if (length >= (replicationFactor ?? 1)) return length
    throw new UnfitCluster(`KAFKA_REPLICATION_FACTOR is ${replicationFactor}, but the cluster has ${length} brokers`)
  }
  const shouldRetry = ({ error }: { error: Error }) => error instanceof UnfitCluster
  const brokers = await retryFor(BROKERS_LIMIT_MS, LEADER_POLL_MS, countBrokers, { shouldRetry })
  const factor = replicationFactor ?? Math.min(DEFAULT_REPLICAS, brokers)
  const inSync = minInsyncReplicas ?? Math.max(1, factor - 1)
  if (inSync > factor)
    throw new UnfitCluster(
      `KAFKA_MIN_INSYNC_REPLICAS is ${inSync}, but topics get ${factor} replicas on ${brokers} brokers`,
    )
  return { factor, inSync }
}

/** Settings that existing topics lack, by name; refuses what would move keys or lose records. */
async function changesOf(
  admin: Admin,
  topics: readonly TopicDefinition[],
  inSync: number,
): Promise<Map<string, TopicSettings>> {
  const replicas = await refuseOtherPartitions(admin, topics)
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: topics.map(({ name }) => ({ type: ConfigResourceTypes.TOPIC, name })),
  })
  const changes = new Map<string, TopicSettings>()
  for (const { resourceName, configEntries } of resources) {
    const topic = topics.find(({ name }) => name === resourceName)
    if (topic === undefined) continue
    // Types lack where a setting comes from.
    const entries = configEntries as unknown as { configName: string; configValue: string; configSource: number }[]
    const ownEntries = entries.filter(({ configSource }) => configSource === OWN_SETTING)
    const own = new Map(ownEntries.map(({ configName, configValue }) => [configName, configValue]))
    if (own.get(UNCLEAN) === 'true')
      throw new UnfitCluster(
        `${resourceName} has ${UNCLEAN}=true: an election may lose acknowledged records. Remove that setting, or set it to false`,
      )
    const needed: TopicSettings = {
      ...settingsOf(topic),
      [MIN_IN_SYNC]: String(Math.min(inSync, replicas.get(resourceName) ?? 1)),
    }
    const lacking = Object.entries(needed).filter(([name, value]) =>
      NEEDED.includes(name) ? own.get(name) !== value : !own.has(name),
    )
    if (lacking.length > 0) changes.set(resourceName, Object.fromEntries(lacking))
  }
  return changes
}

const LEADER_LIMIT_MS = 30_000
const LEADER_POLL_MS = 50

/**
 * Creates topics and returns once the leader of each of their partitions answers for it. Throws after 30 s without leaders.
 *
 * A broker names itself the leader of partitions that it has not opened yet, and refuses their records for a second or two as one
 * that does not lead. The client's own wait gives up when the broker, busy with many partitions, does not know a topic yet.
 */
export async function createTopics(admin: Admin, topics: readonly ITopicConfig[]): Promise<void> {
  await admin.createTopics({ waitForLeaders: false, topics: [...topics] })
  const names = topics.map(({ topic }) => topic)
  await retryFor(LEADER_LIMIT_MS, LEADER_POLL_MS, async () => {
    const { topics: created } = await admin.fetchTopicMetadata({ topics: names })
    if (!created.every(({ partitions }) => partitions.length > 0 && partitions.every(({ leader }) => leader >= 0)))
      throw new Error(`no leader for all of ${names.join(', ')} after ${LEADER_LIMIT_MS} ms`)
  })
  for (const name of names) await admin.fetchTopicOffsets(name)
}

/** Refuses another number of partitions than the catalogue's; the replicas of each topic. */
async function refuseOtherPartitions(admin: Admin, topics: readonly TopicDefinition[]): Promise<Map<string, number>> {
  const { topics: present } = await admin.fetchTopicMetadata({ topics: topics.map(topic => topic.name) })
  for (const { name, partitions } of present) {
    const expected = topics.find(topic => topic.name === name)?.partitions
    if (expected !== undefined && expected !== partitions.length) {
      throw new UnfitCluster(
        `${name} has ${partitions.length} partitions, the catalogue says ${expected}: keys would move`,
      )
    }
  }
  return new Map(
    present.map(({ name, partitions }) => [name, Math.min(...partitions.map(({ replicas }) => replicas.length))]),
  )
}

function settingsOf(topic: TopicDefinition): TopicSettings {
  const settings: TopicSettings = {
    [UNCLEAN]: 'false',
    'max.message.bytes': String(MAX_MESSAGE_BYTES),
    // Records carry event time far in the past when history is loaded; age, and order between topics, count from arrival.
    'message.timestamp.type': 'LogAppendTime',
  }
  if (topic.retention.policy === 'compact') {
    settings['cleanup.policy'] = 'compact'
    // Compaction runs on closed segments only: small ones keep a restore short.
    settings['segment.bytes'] = String(32 * 2 ** 20)
    settings['min.cleanable.dirty.ratio'] = '0.3'
  } else {
    settings['cleanup.policy'] = 'delete'
    settings['retention.ms'] = String(topic.retention.ms)
    settings['retention.bytes'] = String(topic.retention.bytesPerPartition)
  }
  return settings
}

export type TopicSettings = Record<string, string>

const INCREMENTAL_ALTER_CONFIGS = 44
const TOPIC_RESOURCE = 2
const SET_OPERATION = 0

/**
 * Sets the named settings of topics and leaves their others alone; throws what the brokers refuse.
 *
 * The pinned client knows only the request that replaces a topic's whole configuration, and with it what an operator has set.
 */
export async function setTopicSettings(
  kafka: KafkaConnection,
  changes: ReadonlyMap<string, TopicSettings>,
): Promise<void> {
  const cluster = openCluster(kafka, 'settings')
  await cluster.connect()
  try {
    await cluster.refreshMetadata()
    // Any broker would do: it hands the request on to the controller.
    const broker = await cluster.findControllerBroker()
    const request = { apiName: 'IncrementalAlterConfigs', apiKey: INCREMENTAL_ALTER_CONFIGS, apiVersion: 0 }
    const refused = await sendRequest(broker, { ...request, body: encodeChanges(changes) }, decodeRefused)
    if (refused.length > 0) throw new Error(refused.map(({ name, message }) => `${name}: ${message}`).join('; '))
  } finally {
    await cluster.disconnect()
  }
}

function encodeChanges(changes: ReadonlyMap<string, TopicSettings>): WireEncoder {
  const resources = [...changes].map(([topic, settings]) =>
    new Encoder()
      .writeInt8(TOPIC_RESOURCE)
      .writeString(topic)
      .writeArray(
        Object.entries(settings).map(([name, value]) =>
          new Encoder().writeString(name).writeInt8(SET_OPERATION).writeString(value),
        ),
      ),
  )
  return new Encoder().writeArray(resources).writeBoolean(false)
}

function decodeRefused(decoder: WireDecoder): { code: number; message: string; name: string }[] {
  decoder.readInt32() // throttle time
  return decoder
    .readArray(one => {
      const code = one.readInt16()
      const message = one.readString()
      one.readInt8() // resource type
      return { code, message, name: one.readString() }
    })
    .filter(({ code }) => code !== 0)
}
