/**
 * One of three brokers is away, or leads no more: whatever reads or writes goes on by the others.
 *
 * Readers without a group asked a broker that led no more for up to five minutes; an admin, a search for a coordinator and a metadata request
 * failed at the first broker that was away. The clients of each kind are opened while all brokers answer, so that they know the one that goes.
 */
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { follow } from '#infra/kafka/follower.ts'
import { joinGroup } from '#infra/kafka/group-consumer.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { createTopics } from '#infra/kafka/topic-admin.ts'
import { openTransactionalProducer } from '#infra/kafka/transactional-producer.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { openClusterControl } from '#test/harness/cluster-control.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useCluster } from '#test/harness/use-cluster.ts'

const MOVE_LIMIT_MS = 30_000
/** A broker that is killed is missed after its session, and a busy machine elects slowly. */
const AWAY_LIMIT_MS = 90_000

describe('a missing broker', () => {
  const platform = useCluster()
  let kafka: KafkaConnection
  const undo: (() => Promise<unknown>)[] = []

  before(() => {
    kafka = platform.connect('test')
  })
  afterEach(async () => {
    for (const end of undo.splice(0).reverse()) await end()
  })

  /** A topic of the catalogue with a leader for each partition, an admin, and what sends a record to each of its partitions. */
  async function provide(key: TopicKey, replicationFactor: number) {
    const { partitions } = topics[key]
    const topic = kafka.topicName(key)
    const admin = kafka.newClient('admin').admin()
    await admin.connect()
    undo.push(() => admin.disconnect())
    await createTopics(admin, [{ topic, numPartitions: partitions, replicationFactor }])
    const retry = { initialRetryTime: 100, maxRetryTime: 500, retries: 300 }
    const producer = kafka.newClient('producer', { retry }).producer({ idempotent: true, maxInFlightRequests: 1 })
    await producer.connect()
    undo.push(() => producer.disconnect())
    const all = Array.from({ length: partitions }, (_, partition) => partition)
    const send = async (round: string): Promise<string[]> => {
      const messages = all.map(partition => ({ key: `${round}-${partition}`, value: '', partition }))
      await producer.send({ topic, acks: -1, messages })
      return messages.map(({ key: sent }) => sent)
    }
    const leaders = async (): Promise<number[]> => {
      const { topics: found } = await admin.fetchTopicMetadata({ topics: [topic] })
      const led = found[0]?.partitions ?? []
      return all.map(partition => led.find(({ partitionId }) => partitionId === partition)?.leader ?? -1)
    }
    return { topic, admin, all, send, leaders }
  }

  /** The keys that a reader without a group is given. */
  async function followed(key: TopicKey): Promise<string[]> {
    const keys: string[] = []
    const stop = new AbortController()
    const following = await follow(kafka, key, {
      from: 'start',
      signal: stop.signal,
      onRecords: records => void keys.push(...records.map(record => String(record.key))),
    })
    undo.push(() => {
      stop.abort()
      return following.closed
    })
    return keys
  }

  it('does not hold a reader up after another broker leads: it goes on within two seconds', async () => {
    const { topic, admin, all, send, leaders } = await provide('bids', 1)
    const keys = await followed('bids')
    const before = await send('before')
    await eventually(() => before.every(key => keys.includes(key)), 'what came before the move')
    const former = await leaders()
    const next = former.map(leader => (leader % 3) + 1)
    const partitionAssignment = all.map(partition => ({ partition, replicas: [next[partition] as number] }))
    await admin.alterPartitionReassignments({ topics: [{ topic, partitionAssignment }] })
    await eventually(async () => `${await leaders()}` === `${next}`, 'other leaders')
    const after = await send('after')
    await eventually(() => after.every(key => keys.includes(key)), 'what came after the move')
    expect(keys).to.have.length(before.length + after.length)
  })

  it('does not hold the commits of a group up after another broker coordinates it: it stays in its generation', async () => {
    const { topic, admin, all, send } = await provide('sales', 3)
    const failures: Error[] = []
    let generations = 0
    const member = await joinGroup(
      kafka,
      { group: 'moved', topics: ['sales'], fail: error => failures.push(error) },
      {
        assigned() {
          generations += 1
        },
        async batch({ topic: key, partition, next }, _tick, commit) {
          await commit(key, partition, next)
          return 'done'
        },
        passed: async () => undefined,
      },
    )
    undo.push(() => member.leave())
    const committed = async (): Promise<number[]> => {
      const [found] = await admin.fetchOffsets({ groupId: kafka.groupName('moved'), topics: [topic] })
      return (found?.partitions ?? []).map(({ offset }) => Number(offset))
    }
    const hasCommitted = async (offset: number): Promise<boolean> => (await committed()).every(one => one === offset)
    await send('before')
    await eventually(() => hasCommitted(1), 'the group')
    await openClusterControl(platform).moveLeaders(['__consumer_offsets'], leader => (leader % 3) + 1, MOVE_LIMIT_MS)
    await send('after')
    await eventually(() => hasCommitted(2), 'commits after the move')
    expect({ failures, generations, partitions: (await committed()).length }).to.deep.equal({
      failures: [],
      generations: 1,
      partitions: all.length,
    })
  })

  it('does not keep clients from listing topics and writing, though it led a topic of others alone', async () => {
    const { admin } = await provide('alertRules', 3)
    const others = `${kafka.namespace}of-others`
    await createTopics(admin, [{ topic: others, replicaAssignment: [{ partition: 0, replicas: [3] }] }])
    const broker = platform.cluster.brokers[2]
    await broker?.stop()
    undo.push(async () => broker?.start())
    const [left] = (await openClusterControl(platform).partitions()).filter(({ topic }) => topic === others)
    expect(left?.leader).to.equal(-1)

    const { topic, send, all } = await provide('alertsTriggered', 2)
    expect(await send('while it is away')).to.have.length(all.length)
    const opened = { transactionalId: 'new', writers: ['alert-triggers'] }
    await (await openTransactionalProducer(kafka, opened)).close()
    expect(await admin.listTopics()).to.include.members([topic, others])
  })

  it('ends nothing that other brokers can answer', async () => {
    const { topic, admin, all, send } = await provide('quotes', 3)
    const keys = await followed('quotes')
    const reader = await openRangeReader(kafka, [topic])
    undo.push(() => reader.close())
    const failures: Error[] = []
    const grouped = new Set<string>()
    const member = await joinGroup(
      kafka,
      { group: 'g', topics: ['quotes'], fail: error => failures.push(error) },
      {
        assigned: () => undefined,
        async batch({ messages }) {
          for (const { key } of messages) grouped.add(String(key))
          return 'done'
        },
        passed: async () => undefined,
      },
    )
    undo.push(() => member.leave())
    const before = await send('before')
    await eventually(() => before.every(key => grouped.has(key)), 'the group')
    const broker = platform.cluster.brokers[1]
    await broker?.kill()
    undo.push(async () => broker?.start())
    const asked = Promise.all([
      admin.fetchTopicOffsets(topic),
      admin.fetchOffsets({ groupId: kafka.groupName('g'), topics: [topic] }),
      ...all.map(partition => reader.end(topic, partition)),
      send('away'),
    ])
    const late = eventually(
      () => all.every(partition => keys.includes(`away-${partition}`) && grouped.has(`away-${partition}`)),
      'what came while a broker was away',
      AWAY_LIMIT_MS,
    )
    await asked
    await late
    expect(broker?.isRunning()).to.equal(false)
    expect(failures).to.deep.equal([])
    expect(keys.filter(key => key.startsWith('away'))).to.have.length(all.length)
  })
})
