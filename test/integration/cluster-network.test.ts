/**
 * The cluster that tests own: what its brokers and proxies can be made to do, seen through a client of the platform.
 *
 * A fault that a harness only believes to have made would let every test of faults pass.
 */
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { createTopics } from '#infra/kafka/topic-admin.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useCluster } from '#test/harness/use-cluster.ts'

type Client = ReturnType<KafkaConnection['newClient']>

const TOPIC = 'network-of-brokers'

describe('a cluster of three brokers', () => {
  const platform = useCluster()
  let admin: ReturnType<Client['admin']>
  let producer: ReturnType<Client['producer']>

  before(async () => {
    const client = platform.connect('test').newClient('network', { retry: { retries: 30, maxRetryTime: 1_000 } })
    admin = client.admin()
    producer = client.producer()
    await admin.connect()
    await producer.connect()
    await createTopics(admin, [{ topic: TOPIC, numPartitions: 3, replicationFactor: 3 }])
  })
  after(async () => {
    await producer?.disconnect()
    await admin?.disconnect()
  })

  const inSync = async (): Promise<number[]> => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [TOPIC] })
    return (topics[0]?.partitions ?? []).map(({ isr }) => isr.length)
  }
  const all = (count: number) =>
    eventually(async () => (await inSync()).every(replicas => replicas === count), `${count} replicas in sync`)
  const write = (value: string) =>
    producer.send({ topic: TOPIC, acks: -1, messages: [0, 1, 2].map(partition => ({ partition, value })) })

  it('names the ports of its proxies to clients', async () => {
    const { brokers } = await admin.describeCluster()
    expect(brokers.map(({ host, port }) => `${host}:${port}`)).to.have.members(platform.cluster.addresses)
  })

  it('has a frozen broker asked once, and not again while others answer', async () => {
    const limited = { requestTimeout: 1_000, retry: { retries: 0 } }
    const own = platform.connect('test').newClient('frozen', limited).admin()
    await own.connect()
    // Each of the three leads a partition.
    await own.fetchTopicOffsets(TOPIC)
    platform.cluster.brokers[1]?.freeze()
    const startedAt = performance.now()
    for (let request = 0; request < 30; request++) await own.fetchTopicMetadata({ topics: [TOPIC] })
    const tookMs = performance.now() - startedAt
    platform.cluster.brokers[1]?.thaw()
    await own.disconnect()
    await all(3)
    expect(tookMs, 'one request waited for its limit').to.be.below(3_000)
  })

  for (const how of ['kill', 'stop'] as const)
    it(`takes records while a broker is away after ${how}, and has it back with its data`, async () => {
      const [broker] = platform.cluster.brokers
      await all(3)
      await broker?.[how]()
      expect(broker?.isRunning()).to.equal(false)
      await write(how)
      await all(2)
      await broker?.start()
      await all(3)
    })

  it('leaves a frozen broker out and takes it in again', async () => {
    const broker = platform.cluster.brokers[1]
    await all(3)
    broker?.freeze()
    await all(2)
    broker?.thaw()
    await all(3)
  })

  it('delays what passes a slow network', async () => {
    await admin.describeCluster()
    for (const { network } of platform.cluster.brokers) network.delay(1_000)
    const startedAt = performance.now()
    await admin.describeCluster()
    expect(performance.now() - startedAt).to.be.at.least(2_000)
    for (const { network } of platform.cluster.brokers) network.heal()
  })

  it('cuts connections and refuses new ones until the network heals', async () => {
    const network = platform.cluster.brokers[2]?.network
    await write('before')
    network?.cut()
    expect(network?.connections()).to.equal(0)
    network?.heal()
    await write('after')
  })

  for (const direction of ['to-server', 'to-client', undefined] as const)
    it(`lets bytes vanish ${direction ?? 'both ways'} while connections stay`, async () => {
      const { brokers } = platform.cluster
      const client = platform.connect('test').newClient('half-open', { requestTimeout: 1_000, retry: { retries: 0 } })
      const own = client.admin()
      // Those of clients that ask nothing meanwhile; the one that asks closes what is not answered.
      const open = brokers.map(({ network }) => network.connections())
      await own.connect()
      await own.describeCluster()
      for (const { network } of brokers) network.stall(direction)
      const failed = await own.describeCluster().then(
        () => undefined,
        error => error,
      )
      const stayed = brokers.map(({ network }, index) => network.connections() >= (open[index] ?? 0))
      for (const { network } of brokers) network.heal()
      await own.disconnect()
      const isLeft = () => brokers.every(({ network }, index) => network.connections() <= (open[index] ?? 0))
      await eventually(isLeft, 'the connections of the client that asked to be closed')
      expect(failed).to.be.an('error')
      expect(stayed).to.deep.equal([true, true, true])
    })
})
