/**
 * Three brokers behind TLS, credentials and rights: who is let in, how refused processes end, what set-up leaves of a topic's settings, and
 * what goes on while a broker is away. Refused clients retried for ten minutes as if brokers were away; each start replaced what an operator
 * had set on a topic; readers asked a broker that no longer led for up to five minutes, and admins, searches for a coordinator and metadata
 * requests failed at the first broker that was away. One cluster serves all tests: those that harm brokers come last and leave it whole.
 */
import { once } from 'node:events'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { createServer } from 'node:tls'
import { expect } from 'chai'
import { readDiskBytes, withAdmin } from '#infra/kafka/admin.ts'
import * as codes from '#infra/kafka/client/kafkajs.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { follow } from '#infra/kafka/follower.ts'
import { joinGroup } from '#infra/kafka/group-consumer.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { createTopics, setTopicSettings, setUpTopics } from '#infra/kafka/topic-admin.ts'
import { openTransactionalProducer } from '#infra/kafka/transactional-producer.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { keepRunning } from '#services/cli/role-process.ts'
import { prepareRunDirectory, runDirectory } from '#services/cli/run-directory.ts'
import { signCertificate } from '#test/harness/certificates.ts'
import { type ClusterControl, openClusterControl } from '#test/harness/cluster-control.ts'
import { eventually, within } from '#test/harness/eventually.ts'
import { findJavaReader } from '#test/harness/java-reader.ts'
import { REGISTRY_TOKEN, useCluster } from '#test/harness/use-cluster.ts'

type Client = ReturnType<KafkaConnection['newClient']>

const UNAVAILABLE = 69
const PASSWORDS = { reader: 'password-of-reader', nobody: 'password-of-nobody' }
const WRONG = 'password-that-is-wrong'
/** The promise to readers and groups when a leader or coordinator moves. */
const GOES_ON_MS = 2_000
/** A killed broker is missed after its session, a refused process is tried again after half a minute. */
const AWAY_LIMIT_MS = 120_000

describe('three brokers', () => {
  const platform = useCluster({ users: PASSWORDS, setUp: true })
  let kafka: KafkaConnection
  /** Without the topics of set-up. */
  let apart: KafkaConnection
  let control: ClusterControl
  let admin: ReturnType<Client['admin']>
  const undo: (() => unknown)[] = []

  before(async () => {
    kafka = platform.connect('test')
    apart = platform.connect('test', { MARKETLOG_NAMESPACE: 'apart.' })
    control = openClusterControl(platform)
    admin = kafka.newClient('admin').admin()
    await admin.connect()
  })
  afterEach(async () => {
    for (const end of undo.splice(0).reverse()) await end()
  })
  after(() => admin?.disconnect())

  const passwordOf = (password: string) => ({ KAFKA_PASSWORD: password, KAFKA_PASSWORD_FILE: '' })
  const as = (user: keyof typeof PASSWORDS) => ({ KAFKA_USER: user, ...passwordOf(PASSWORDS[user]) })
  const clientWith = (changes: Record<string, string> = {}, requestTimeout = 30_000): Client =>
    platform.connect('test', changes).newClient('once', { requestTimeout, retry: { retries: 0 } })
  const connects = async (client: Client): Promise<boolean> => {
    const own = client.admin()
    const refusal = await own.connect().catch((error: Error) => error)
    await own.disconnect()
    return refusal === undefined
  }
  const certificate = async (name: string, days: number) => {
    const context = { environment: process.env, signal: new AbortController().signal }
    const pem = await signCertificate(context, platform.cluster.tlsDir, { name, days })
    return { KAFKA_TLS_CERT: pem.certificate, KAFKA_TLS_KEY: pem.key }
  }

  describe('let in', () => {
    for (const mechanism of ['plain', 'scram-sha-256', 'scram-sha-512'])
      it(`clients with ${mechanism}, and none with a wrong password`, async () => {
        expect(await connects(clientWith({ KAFKA_SASL: mechanism }))).to.equal(true)
        expect(await connects(clientWith({ KAFKA_SASL: mechanism, ...passwordOf(WRONG) }))).to.equal(false)
      })

    it('a client with a certificate that is in force', async () => {
      expect(await connects(clientWith(await certificate('client', 1)))).to.equal(true)
    })

    it('a client whose password and authority are read again for each connection', async () => {
      const { access } = platform.cluster
      const [password, ca] = [join(platform.folder, 'password'), join(platform.folder, 'ca.pem')]
      copyFileSync(access.KAFKA_PASSWORD_FILE, password)
      copyFileSync(access.KAFKA_TLS_CA, ca)
      const client = clientWith({ KAFKA_PASSWORD_FILE: password, KAFKA_TLS_CA: ca })
      expect(await connects(client)).to.equal(true)
      writeFileSync(password, WRONG)
      expect(await connects(client)).to.equal(false)
      copyFileSync(access.KAFKA_PASSWORD_FILE, password)
      expect(await connects(client)).to.equal(true)
      copyFileSync((await certificate('another', 1)).KAFKA_TLS_CERT, ca)
      expect(await connects(client)).to.equal(false)
    })

    it('readers without a group, requests that the client lacks, and the Java client', async () => {
      const topic = kafka.topicName('catalog')
      const reader = await openRangeReader(kafka, [topic])
      const end = await reader.stableEnd(topic, 0)
      expect((await readDiskBytes(kafka)).some(one => one.topic === topic && one.bytes > 0)).to.equal(true)
      await reader.close()
      await setTopicSettings(kafka, new Map([[topic, { 'segment.ms': '777000' }]]))
      const java = await findJavaReader()
      const records = await java?.read(kafka.brokers, topic, 'read_committed', kafka.settings)
      expect(records?.at(-1)?.offset).to.equal(end - 1)
    })

    it('users of the registry by a token instead of a password', async () => {
      const basic = { SCHEMA_REGISTRY_USER: '', SCHEMA_REGISTRY_PASSWORD_FILE: '' }
      await platform
        .connect('test', { ...basic, SCHEMA_REGISTRY_TOKEN: REGISTRY_TOKEN })
        .codec.learn([{ value: Buffer.of(0, 0, 0, 0, 1) }])
      expect([...platform.registry.passed.keys()]).to.have.members(['Basic', 'Bearer'])
    })
  })

  describe('end a role with one line and exit code 69', () => {
    async function expiredBroker() {
      const pem = await certificate('broker', -1)
      const server = createServer({ key: readFileSync(pem.KAFKA_TLS_KEY), cert: readFileSync(pem.KAFKA_TLS_CERT) })
      undo.push(() => server.close())
      await once(server.listen(0, '127.0.0.1'), 'listening')
      return { KAFKA_BROKERS: `127.0.0.1:${(server.address() as AddressInfo).port}` }
    }
    const wrongRegistry = { SCHEMA_REGISTRY_PASSWORD: WRONG, SCHEMA_REGISTRY_PASSWORD_FILE: '' }
    const refusals: [why: string, changes: () => object | Promise<object>, line: RegExp][] = [
      ['its password is wrong', () => passwordOf(WRONG), /refuses the credentials; check KAFKA_SASL/],
      ['its own certificate has expired', () => certificate('old', -1), /does not accept this client's certificate/],
      ["a broker's certificate has expired", expiredBroker, /certificate of .* is not accepted \(CERT_HAS_EXPIRED\)/],
      ['the registry refuses it', () => wrongRegistry, /registry refuses the credentials/],
      ['it lacks rights', () => as('nobody'), /Kafka refuses access: .*marketlog acls/],
    ]
    for (const [why, changes, line] of refusals)
      it(`when ${why}, and show no password`, async () => {
        const role = await platform.spawnRole('book', { LOG_LEVEL: 'warn', ...(await changes()) })
        role.expectEnd(line)
        expect((await within(role.ended, 'the role to end')).code).to.equal(UNAVAILABLE)
        expect(role.lines()).to.have.length(1)
        expect(role.lines()[0])
          .to.match(line)
          .and.not.match(/password-of|password-that/)
      })
  })

  describe('refuse a reader that runs:', () => {
    const PRINCIPAL = 'User:reader'
    before('rights as `marketlog acls` gives them', async () => {
      const { stdout } = await platform.command('acls', 'feed', '--principal', PRINCIPAL, '--apply')
      for (const line of stdout.trim().split('\n')) expect(JSON.parse(line).principal).to.equal(PRINCIPAL)
    })

    /** A right that is denied outweighs all that are given. */
    const denied = (key: TopicKey) => ({
      resourceType: codes.AclResourceTypes.TOPIC,
      resourceName: kafka.topicName(key),
      resourcePatternType: codes.ResourcePatternTypes.LITERAL,
      principal: PRINCIPAL,
      host: '*',
      operation: codes.AclOperationTypes.READ,
      permissionType: codes.AclPermissionTypes.DENY,
    })
    const giveBack = (key: TopicKey) => admin.deleteAcls({ filters: [denied(key)] })
    const withdraw = (key: TopicKey) => {
      undo.push(() => giveBack(key))
      return admin.createAcls({ acl: [denied(key)] })
    }
    async function start() {
      const spawned = await platform.spawnRole('feed', as('reader'))
      await spawned.ready()
      return spawned
    }
    function keepFeed(name: string, changes: Record<string, string>) {
      const directory = runDirectory({ MARKETLOG_RUN_DIR: join(platform.folder, name) })
      prepareRunDirectory(directory)
      const lines: string[] = []
      const givenUp: Error[] = []
      const kept = keepRunning({
        group: { name: 'history', roles: ['feed'] },
        directory,
        environment: { PATH: process.env.PATH ?? '', ...platform.environment, ...as('reader'), ...changes },
        onListening: () => undefined,
        report: line => lines.push(line),
        onGivenUp: error => givenUp.push(error),
        refusedPauseMs: 1_000,
      })
      undo.push(() => kept.stop())
      return { kept, lines, givenUp }
    }

    for (const topic of ['bookChanges', 'catalog'] as const)
      it(`it ends with one line and exit code 69 when ${topic} is withdrawn`, async () => {
        const spawned = await start()
        spawned.expectEnd(/cannot go on: Kafka refuses access: .*marketlog acls/)
        await withdraw(topic)
        expect((await within(spawned.ended, 'the feed to end')).code).to.equal(UNAVAILABLE)
        expect(spawned.lines().filter(line => /"level":"(error|fatal)"/.test(line))).to.have.length(1)
      })

    it('it goes on when the right is back within seconds', async () => {
      const spawned = await start()
      const isReady = async () => (await fetch(`${await spawned.operatorUrl()}/readyz`)).ok
      await withdraw('bookChanges')
      await eventually(async () => !(await isReady()), 'the feed to be refused')
      await giveBack('bookChanges')
      await eventually(isReady, 'the feed to be ready again')
      await spawned.stop()
    })

    it('the supervisor says so once, and tries again with pauses until the right is back', async () => {
      const { kept, lines, givenUp } = keepFeed('refused-later', { LOG_LEVEL: 'info' })
      await eventually(() => kept.ports() !== undefined, 'the feed to listen')
      await withdraw('bookChanges')
      await eventually(() => kept.ports() === undefined && lines.length > 0, 'the feed to end')
      // At its second start it has not read anything yet.
      await eventually(() => kept.restarts() > 1, 'a second try')
      await giveBack('bookChanges')
      await eventually(() => kept.ports() !== undefined, 'the feed to listen again')
      expect([lines.length, givenUp.length]).to.deep.equal([1, 0])
      expect(lines[0]).to.match(/^history is refused \(exit code 69\).*Kafka refuses access.*every 1 s$/s)
    })

    it('the supervisor gives up at once one that never ran, which used to hang', async () => {
      const { kept, lines, givenUp } = keepFeed('refused-at-once', { KAFKA_PASSWORD: WRONG })
      const error = await eventually(() => givenUp[0], 'the supervisor to give up')
      expect(error).to.include({ exitCode: UNAVAILABLE })
      expect(error.message).to.contain('Kafka refuses the credentials')
      expect([lines, kept.restarts()]).to.deep.equal([[], 0])
    })
  })

  describe('hold topics', () => {
    const topic = () => kafka.topicName('quotes')
    const settings = async () => {
      const resources = [{ type: codes.ConfigResourceTypes.TOPIC, name: topic() }]
      const [found] = (await admin.describeConfigs({ includeSynonyms: false, resources })).resources
      return Object.fromEntries((found?.configEntries ?? []).map(one => [one.configName, one.configValue]))
    }
    /** Brokers learn of a change one after the other, and any of them may be asked: reads in a row agree when all know it. */
    const everywhere = (wanted: Record<string, string>) =>
      eventually(async () => {
        for (let read = 0; read < 6; read++) expect(await settings()).to.include(wanted)
        return true
      }, 'every broker to know the settings')
    const set = async (wanted: Record<string, string>) => {
      await setTopicSettings(kafka, new Map([[topic(), wanted]]))
      await everywhere(wanted)
    }
    const setUp = (changes: Record<string, string> = {}) =>
      setUpTopics(platform.connect('setup', changes)).catch((error: Error) => error.message)

    it('with three replicas, of which two must hold a record, when nothing else is set', async () => {
      const [found] = (await admin.fetchTopicMetadata({ topics: [topic()] })).topics
      expect(found?.partitions.map(({ replicas }) => replicas.length)).to.deep.equal(Array(8).fill(3))
      await everywhere({ 'min.insync.replicas': '2', 'unclean.leader.election.enable': 'false' })
    })

    it('whose settings by an operator outlive a start, without losing those that the platform needs', async () => {
      const byHand = { 'min.insync.replicas': '1', 'retention.ms': '777000', 'segment.ms': '555000' }
      await set({ ...byHand, 'max.message.bytes': '1000' })
      expect(await setUp()).to.be.an('object')
      const needed = { 'max.message.bytes': String(16 * 2 ** 20), 'message.timestamp.type': 'LogAppendTime' }
      await everywhere({ ...byHand, ...needed })
    })

    it('which set-up refuses where there are too few brokers, or an election may lose acknowledged records', async () => {
      expect(await setUp({ KAFKA_REPLICATION_FACTOR: '4' })).to.match(/KAFKA_REPLICATION_FACTOR is 4, .* has 3 brokers/)
      const inSync = await setUp({ KAFKA_MIN_INSYNC_REPLICAS: '4' })
      expect(inSync).to.match(/KAFKA_MIN_INSYNC_REPLICAS is 4, .* get 3 replicas/)
      await set({ 'unclean.leader.election.enable': 'true' })
      expect(await setUp()).to.contain('unclean.leader.election.enable=true')
    })
  })

  describe('of which one is missing', () => {
    /** A topic of the catalogue, and what sends a record to each of its partitions. */
    async function provide(key: TopicKey, replicationFactor: number) {
      const { partitions: numPartitions } = topics[key]
      const topic = apart.topicName(key)
      await createTopics(admin, [{ topic, numPartitions, replicationFactor }])
      const retry = { initialRetryTime: 100, maxRetryTime: 500, retries: 300 }
      const producer = apart.newClient('producer', { retry }).producer({ idempotent: true, maxInFlightRequests: 1 })
      await producer.connect()
      undo.push(() => producer.disconnect())
      const all = Array.from({ length: numPartitions }, (_, partition) => partition)
      const keysOf = (round: string) => all.map(partition => `${round}-${partition}`)
      const send = (round: string) =>
        producer.send({ topic, messages: keysOf(round).map((key, partition) => ({ key, value: '', partition })) })
      return { topic, all, keysOf, send }
    }
    /** A reader without a group and a member of one that commits each batch; `pass` resolves when both have what was sent. */
    async function read(key: TopicKey) {
      const { topic, all, keysOf, send } = await provide(key, 3)
      const seen = { followed: [] as string[], grouped: [] as string[], failures: [] as Error[], generations: 0 }
      const stop = new AbortController()
      const following = await follow(apart, key, {
        from: 'start',
        signal: stop.signal,
        onRecords: records => void seen.followed.push(...records.map(one => String(one.key))),
      })
      undo.push(() => stop.abort() ?? following.closed)
      const options = { group: key, topics: [key], fail: (error: Error) => seen.failures.push(error) }
      const member = await joinGroup(apart, options, {
        assigned: () => void seen.generations++,
        async batch({ partition, next, messages }, _tick, commit) {
          await commit(key, partition, next)
          seen.grouped.push(...messages.map(one => String(one.key)))
          return 'done'
        },
        passed: async () => undefined,
      })
      undo.push(() => member.leave())
      const pass = async (round: string, limitMs?: number): Promise<void> => {
        await send(round)
        const hasCome = (one: string) => seen.followed.includes(one) && seen.grouped.includes(one)
        await eventually(() => keysOf(round).every(hasCome), `the records ${round}`, limitMs)
      }
      return { topic, all, seen, pass }
    }

    it('let readers and groups go on within two seconds after others lead and coordinate', async () => {
      const { topic, all, seen, pass } = await read('sales')
      await pass('before')
      await control.moveLeaders([topic, '__consumer_offsets'], leader => (leader % 3) + 1, AWAY_LIMIT_MS)
      await pass('after', GOES_ON_MS)
      const [found] = await admin.fetchOffsets({ groupId: apart.groupName('sales'), topics: [topic] })
      expect(found?.partitions.map(({ offset }) => offset)).to.deep.equal(all.map(() => '2'))
      expect(seen.followed).to.have.length(2 * all.length)
      expect(seen).to.deep.include({ generations: 1, failures: [] })
    })

    it('have a frozen one asked once, left out by the others, and taken in again', async () => {
      const { topic } = await provide('refreshes', 3)
      const own = clientWith({}, 1_000).admin()
      await own.connect()
      undo.push(() => own.disconnect())
      // Each of the three leads a partition.
      await own.fetchTopicOffsets(topic)
      const broker = platform.cluster.brokers[1]
      undo.push(() => broker?.thaw())
      broker?.freeze()
      const startedAt = performance.now()
      for (let request = 0; request < 30; request++) await own.fetchTopicMetadata({ topics: [topic] })
      expect(performance.now() - startedAt, 'one request waited for its limit').to.be.below(3_000)
      const inSync = async () => (await control.partitions(1)).map(one => one.inSync.length)
      await eventually(async () => (await inSync()).every(replicas => replicas < 3), 'the others to go on')
      broker?.thaw()
      await control.whole(AWAY_LIMIT_MS)
    })

    for (const [how, id, key, late] of [
      ['stop', 3, 'bids', 'alertsTriggered'],
      ['kill', 2, 'quotes', 'alertRules'],
    ] as const)
      it(`answer old and new clients after a ${how}, though it led a topic alone, and take it in again`, async () => {
        const broker = platform.cluster.brokers[id - 1] ?? expect.fail('no such broker')
        const others = `${apart.namespace}led-by-${id}`
        // A client that knows it fails at every refresh of its metadata while nobody leads it.
        const assigned = { topic: others, replicaAssignment: [{ partition: 0, replicas: [id] }] }
        await withAdmin(kafka, own => createTopics(own, [assigned]))
        const { topic, all, seen, pass } = await read(key)
        const reader = await openRangeReader(apart, [topic])
        undo.push(() => reader.close())
        await pass('before')
        undo.push(() => broker.isRunning() || broker.start())
        await broker[how]()
        await Promise.all([
          admin.fetchTopicOffsets(topic),
          admin.fetchOffsets({ groupId: apart.groupName(key), topics: [topic] }),
          ...all.map(partition => reader.end(topic, partition)),
          pass('away', AWAY_LIMIT_MS),
        ])
        expect(seen.followed).to.have.length(2 * all.length)
        expect(seen.failures).to.deep.equal([])
        const leaderOf = async () => (await control.partitions(1)).find(one => one.topic === others)?.leader
        await eventually(async () => (await leaderOf()) === -1, 'its own topic to be without a leader')
        const fresh = await provide(late, 2)
        await fresh.send('new')
        await (await openTransactionalProducer(apart, { transactionalId: how, writers: ['alert-triggers'] })).close()
        expect(await admin.listTopics()).to.include.members([fresh.topic, others])
        expect(broker.isRunning()).to.equal(false)
        await broker.start()
        await control.whole(AWAY_LIMIT_MS)
      })
  })
})
