/**
 * Topics on a cluster: replicated as the settings say, and what an operator has set stays.
 *
 * Every start replaced the whole configuration of a topic, so that an operator's `min.insync.replicas` or retention was gone with the
 * next deployment, and topics had one replica.
 */
import { expect } from 'chai'
import { ConfigResourceTypes } from '#infra/kafka/client/kafkajs.ts'
import { setTopicSettings, setUpTopics } from '#infra/kafka/topic-admin.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useCluster } from '#test/harness/use-cluster.ts'

describe('topics of a cluster', () => {
  const platform = useCluster()
  const topic = () => `${platform.config.namespace}market.quotes`

  before(async () => void (await setUpTopics(platform.connect('setup'))))

  async function ask<T>(
    work: (admin: ReturnType<ReturnType<ReturnType<typeof platform.connect>['newClient']>['admin']>) => Promise<T>,
  ): Promise<T> {
    const admin = platform.connect('test').newClient('ask').admin()
    await admin.connect()
    return work(admin).finally(() => admin.disconnect())
  }
  const settings = (...configNames: string[]) =>
    ask(async admin => {
      const resources = [{ type: ConfigResourceTypes.TOPIC, name: topic(), configNames }]
      const described = await admin.describeConfigs({ includeSynonyms: false, resources })
      const entries = described.resources[0]?.configEntries ?? []
      return Object.fromEntries(entries.map(({ configName, configValue }) => [configName, configValue]))
    })
  /** Brokers learn of a change one after the other, and any of them may be asked: reads in a row agree when all know it. */
  const everywhere = (wanted: Record<string, string>) =>
    eventually(async () => {
      for (let read = 0; read < 6; read++) expect(await settings(...Object.keys(wanted))).to.deep.equal(wanted)
      return true
    }, 'every broker to know the settings')
  const setUp = (changes: Record<string, string> = {}) =>
    setUpTopics(platform.connect('setup', changes)).then(
      () => '',
      error => (error as Error).message,
    )

  it('have three replicas, of which two must hold a record, when nothing else is set', async () => {
    const metadata = await ask(admin => admin.fetchTopicMetadata({ topics: [topic()] }))
    expect(metadata.topics[0]?.partitions.map(({ replicas }) => replicas.length)).to.deep.equal(Array(8).fill(3))
    expect(await settings('min.insync.replicas', 'unclean.leader.election.enable')).to.deep.equal({
      'min.insync.replicas': '2',
      'unclean.leader.election.enable': 'false',
    })
  })

  it('keep what an operator has set over a start, and lose nothing of their own', async () => {
    const byHand = { 'min.insync.replicas': '1', 'retention.ms': '777000', 'segment.ms': '555000' }
    await setTopicSettings(platform.connect('test'), new Map([[topic(), { ...byHand, 'max.message.bytes': '1000' }]]))
    await everywhere({ ...byHand, 'max.message.bytes': '1000' })
    expect(await setUp()).to.equal('')
    const needed = { 'max.message.bytes': String(16 * 2 ** 20), 'message.timestamp.type': 'LogAppendTime' }
    await everywhere({ ...byHand, ...needed })
  })

  it('are refused where the cluster has too few brokers for them', async () => {
    expect(await setUp({ KAFKA_REPLICATION_FACTOR: '4' })).to.match(/KAFKA_REPLICATION_FACTOR is 4, .* has 3 brokers/)
    expect(await setUp({ KAFKA_MIN_INSYNC_REPLICAS: '4' })).to.match(
      /KAFKA_MIN_INSYNC_REPLICAS is 4, .* get 3 replicas/,
    )
  })

  it('are refused while an election may lose acknowledged records', async () => {
    const set = async (value: string) => {
      const unclean = { 'unclean.leader.election.enable': value }
      await setTopicSettings(platform.connect('test'), new Map([[topic(), unclean]]))
      await everywhere(unclean)
    }
    await set('true')
    expect(await setUp()).to.contain('unclean.leader.election.enable=true')
    await set('false')
    expect(await setUp()).to.equal('')
  })
})
