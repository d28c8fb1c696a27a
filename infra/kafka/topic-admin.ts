/**
 * Creates the catalogue's topics and keeps their retention as the catalogue says.
 *
 * For the set-up step alone. Invariant: an existing topic is never deleted or given fewer
 * partitions; a catalogue that asks for another number is refused, because keys would move.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Admin, ITopicConfig } from 'kafkajs'
import { allTopics, type TopicDefinition } from '#schemas/topics.ts'
import type { KafkaConnection } from './connection.ts'
import { ConfigResourceTypes } from './kafkajs.ts'

/** A transaction of `book` holds a whole refresh; its changelog part goes to one partition in one batch. */
const MAX_MESSAGE_BYTES = 16 * 2 ** 20

/** Creates missing topics and corrects the settings of existing ones. */
export async function setUpTopics(kafka: KafkaConnection, replicas = 1): Promise<void> {
  const admin = kafka.newClient('admin').admin()
  await admin.connect()
  try {
    const existing = new Set(await admin.listTopics())
    const named = allTopics.map(topic => ({ ...topic, name: kafka.namespace + topic.name }))
    const missing = named.filter(topic => !existing.has(topic.name))
    if (missing.length > 0) {
      const topics = missing.map(topic => ({
        topic: topic.name,
        numPartitions: topic.partitions,
        replicationFactor: replicas,
        configEntries: settingsOf(topic),
      }))
      await createTopics(admin, topics)
    }
    const kept = named.filter(topic => existing.has(topic.name))
    if (kept.length > 0) {
      await refuseOtherPartitions(admin, kept)
      await admin.alterConfigs({
        validateOnly: false,
        resources: kept.map(topic => ({
          type: ConfigResourceTypes.TOPIC,
          name: topic.name,
          configEntries: settingsOf(topic),
        })),
      })
    }
  } finally {
    await admin.disconnect()
  }
}

/** Deletes every topic of a namespace; for tests, which own theirs. Refuses the production namespace. */
export async function deleteTopics(kafka: KafkaConnection): Promise<void> {
  if (kafka.namespace === '') throw new Error('the topics of the production namespace are not deleted')
  const admin = kafka.newClient('admin').admin()
  await admin.connect()
  try {
    const own = (await admin.listTopics()).filter(topic => topic.startsWith(kafka.namespace))
    if (own.length > 0) await admin.deleteTopics({ topics: own })
  } finally {
    await admin.disconnect()
  }
}

const LEADER_LIMIT_MS = 30_000
const LEADER_POLL_MS = 50

/**
 * Creates topics and returns once each of their partitions has a leader. Throws after 30 s without.
 *
 * The client's own wait gives up when the broker, busy with many partitions, does not know a topic yet.
 */
export async function createTopics(admin: Admin, topics: readonly ITopicConfig[]): Promise<void> {
  await admin.createTopics({ waitForLeaders: false, topics: [...topics] })
  await waitForLeaders(
    admin,
    topics.map(({ topic }) => topic),
  )
}

async function waitForLeaders(admin: Admin, names: string[]): Promise<void> {
  const limit = Date.now() + LEADER_LIMIT_MS
  for (;;) {
    try {
      const { topics } = await admin.fetchTopicMetadata({ topics: names })
      if (topics.every(({ partitions }) => partitions.length > 0 && partitions.every(({ leader }) => leader >= 0)))
        return
    } catch (error) {
      if (Date.now() > limit) throw error
    }
    if (Date.now() > limit) throw new Error(`no leader for all of ${names.join(', ')} after ${LEADER_LIMIT_MS} ms`)
    await delay(LEADER_POLL_MS)
  }
}

async function refuseOtherPartitions(admin: Admin, topics: readonly TopicDefinition[]): Promise<void> {
  const { topics: found } = await admin.fetchTopicMetadata({ topics: topics.map(topic => topic.name) })
  for (const { name, partitions } of found) {
    const wanted = topics.find(topic => topic.name === name)?.partitions
    if (wanted !== undefined && wanted !== partitions.length) {
      throw new Error(`${name} has ${partitions.length} partitions, the catalogue says ${wanted}: keys would move`)
    }
  }
}

function settingsOf(topic: TopicDefinition): { name: string; value: string }[] {
  const settings: Record<string, string> = {
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
  return Object.entries(settings).map(([name, value]) => ({ name, value }))
}
