/**
 * The corrections of the pinned kafkajs, each against a real broker.
 *
 * What a topic's transactions committed is known by the test's own book, and where a JDK is at hand Kafka's
 * own client reads the same topics and must agree with that book.
 */
import { createHook } from 'node:async_hooks'
import { connect, type Socket } from 'node:net'
import { expect } from 'chai'
import { withAdmin } from '#infra/kafka/admin.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { createTopics } from '#infra/kafka/topic-admin.ts'
import { eventually } from '#test/harness/eventually.ts'
import { findJavaReader, type JavaReader } from '#test/harness/java-reader.ts'
import { randomOf, runSeed, type SeededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'

type Producer = ReturnType<ReturnType<KafkaConnection['newClient']>['producer']>
type SocketFactory = (at: { host: string; port: number; onConnect(): void }) => Socket
type Transaction = Awaited<ReturnType<Producer['transaction']>>

/** What is done to a partition: transaction `by` sends records, then ends. */
type Act = { by: number; kind: 'send'; count: number } | { by: number; kind: 'commit' | 'abort' }

const send = (by: number, count = 5): Act => ({ by, kind: 'send', count })
const commit = (by: number): Act => ({ by, kind: 'commit' })
const abort = (by: number): Act => ({ by, kind: 'abort' })
const TRANSACTIONS = 4

/** Transactions that begin, send and end in any order. */
function randomScene(random: SeededRandom, length: number): Act[] {
  const open = new Set<number>()
  const acts: Act[] = []
  while (acts.length < length || open.size > 0) {
    const by = random.integer(0, TRANSACTIONS - 1)
    if (open.has(by) && (acts.length >= length || random.chance(0.4))) {
      acts.push(random.chance(0.5) ? commit(by) : abort(by))
      open.delete(by)
    } else if (acts.length < length) {
      acts.push(send(by, random.integer(1, 20)))
      open.add(by)
    }
  }
  return acts
}

const scenes: { name: string; acts: readonly Act[] }[] = [
  {
    name: 'a transaction that is aborted after one that began later',
    acts: [send(0), send(1), abort(1), abort(0), send(2), commit(2)],
  },
  {
    name: 'a commit within a transaction that is aborted',
    acts: [send(0), send(1), commit(1), send(0), abort(0), send(2), commit(2)],
  },
  {
    name: 'three aborted transactions that begin one after the other',
    acts: [send(0, 1), send(1, 1), send(2, 1), send(3), abort(0), abort(2), abort(1), commit(3)],
  },
  {
    name: 'one producer that aborts and commits in turns',
    acts: [0, 1, 2].flatMap(() => [send(0), abort(0), send(0), commit(0)]),
  },
  { name: 'an aborted transaction at the end', acts: [send(0), commit(0), send(1), abort(1)] },
  { name: 'transactions in mixed order', acts: randomScene(randomOf(2), 100) },
  { name: 'transactions in random order', acts: randomScene(randomOf(runSeed()), 100) },
]

/** Fetches without progress after which a reader counts as stuck. */
const STUCK_FETCHES = 30
/** How long an idle client is watched, in milliseconds of a machine that has nothing else to do. */
const IDLE_TICKS = 300
/** The number of the request FindCoordinator, which follows the length of each request. */
const FIND_COORDINATOR = 10
const API_KEY_AT = 4

const openSocket: SocketFactory = ({ host, port, onConnect }) => connect({ host, port }, onConnect)

/** Opens connections of which the first few break when they ask for a coordinator. */
function breakingSockets(breaks: number): SocketFactory {
  let left = breaks
  return at => {
    const socket = openSocket(at)
    const write = socket.write
    socket.write = (...args: unknown[]): boolean => {
      const [request] = args
      if (left === 0 || !Buffer.isBuffer(request) || request.readInt16BE(API_KEY_AT) !== FIND_COORDINATOR)
        return Reflect.apply(write, socket, args)
      left -= 1
      socket.destroy(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' }))
      return false
    }
    return socket
  }
}

describe('kafkajs as corrected', () => {
  const platform = useServers({ setUp: false })
  let kafka: KafkaConnection
  let java: JavaReader | undefined
  let producers: Producer[]
  let groups = 0

  before(async () => {
    kafka = platform.connect()
    java = await findJavaReader()
    const own = Array.from({ length: TRANSACTIONS }, (_, number) =>
      kafka.newClient(`tx-${number}`).producer({
        transactionalId: `${platform.namespace}tx-${number}`,
        idempotent: true,
        maxInFlightRequests: 1,
      }),
    )
    for (const producer of own) await producer.connect()
    producers = own
  })
  after(() => Promise.all(producers.map(producer => producer.disconnect())))

  /** Creates a topic of one partition. */
  async function createTopic(name: string, settings: Record<string, string> = {}): Promise<string> {
    const topic = `${platform.namespace}${name}`
    const configEntries = Object.entries(settings).map(([key, value]) => ({ name: key, value }))
    await withAdmin(kafka, admin => createTopics(admin, [{ topic, numPartitions: 1, configEntries }]))
    return topic
  }

  /**
   * Performs a scene, whose keys begin with its name; the keys that were committed, in the order of the log. An act is over
   * when the log shows it: the broker answers the end of a transaction before it has written the marker.
   */
  async function perform(topic: string, acts: readonly Act[], name = 't'): Promise<string[]> {
    const open = new Map<number, Transaction>()
    const reader = await openRangeReader(kafka, [topic])
    let end = await reader.end(topic, 0)
    const written: { by: number; key: string; isCommitted: boolean }[] = []
    for (const [number, act] of acts.entries()) {
      const { by } = act
      if (act.kind === 'send') {
        const transaction = open.get(by) ?? (await (producers[by] as Producer).transaction())
        open.set(by, transaction)
        const keys = Array.from({ length: act.count }, (_, at) => `${name}${by}-${number}-${at}`)
        const messages = keys.map(key => ({ key, value: '.'.repeat(40), partition: 0 }))
        await transaction.send({ topic, acks: -1, messages })
        written.push(...keys.map(key => ({ by, key, isCommitted: false })))
      } else {
        await open.get(by)?.[act.kind]()
        open.delete(by)
        for (const record of written) {
          if (record.by !== by) continue
          record.isCommitted ||= act.kind === 'commit'
          record.by = -1
        }
      }
      end += act.kind === 'send' ? act.count : 1
      await eventually(async () => (await reader.end(topic, 0)) === end, `act ${number} in the log`)
    }
    await reader.close()
    return written.filter(({ isCommitted }) => isCommitted).map(({ key }) => key)
  }

  const endOf = async (topic: string): Promise<number> => {
    const reader = await openRangeReader(kafka, [topic])
    return reader.end(topic, 0).finally(() => reader.close())
  }

  async function readRange(topic: string, to: number): Promise<{ offset: number; key: string }[]> {
    const reader = await openRangeReader(kafka, [topic])
    const records: { offset: number; key: string }[] = []
    for await (const page of reader.range(topic, new Map([[0, { from: 0, to }]])))
      records.push(...page.map(({ offset, key }) => ({ offset, key: String(key) })))
    await reader.close()
    return records
  }

  /** The keys that a group reads up to an offset; throws when it gives up, or fetches again and again without progress. */
  async function readGroup(
    topic: string,
    end: number,
    maxBytes: number,
    socketFactory = openSocket,
  ): Promise<string[]> {
    const consumer = kafka.newClient('group', { socketFactory }).consumer({
      groupId: `${platform.namespace}g${groups++}`,
      maxWaitTimeInMs: 50,
      maxBytesPerPartition: maxBytes,
      maxBytes,
    })
    const keys: string[] = []
    const finished = Promise.withResolvers<void>()
    let [position, fetches] = [0, 0]
    consumer.on(consumer.events.END_BATCH_PROCESS, ({ payload }) => {
      const next = Number(payload.lastOffset) + 1
      if (next > position) fetches = 0
      position = Math.max(position, next)
      if (position >= end) finished.resolve()
    })
    consumer.on(consumer.events.FETCH, () => {
      if (++fetches > STUCK_FETCHES) finished.reject(new Error(`the reader is stuck at ${position}`))
    })
    consumer.on(consumer.events.CRASH, ({ payload }) => {
      if (!payload.restart) finished.reject(payload.error)
    })
    await consumer.connect()
    await consumer.subscribe({ topics: [topic], fromBeginning: true })
    await consumer.run({
      autoCommit: false,
      eachBatch: async ({ batch }) => void keys.push(...batch.messages.map(({ key }) => String(key))),
    })
    await finished.promise.finally(() => consumer.disconnect())
    return keys
  }

  describe('in a log of scenes', () => {
    /** Keys that were committed, by scene. */
    const committed: string[][] = []
    /** Keys of the whole log, by reader. */
    const readings = new Map<string, string[]>()
    const nameOf = (scene: number) => `s${scene}-`

    before(async () => {
      const topic = await createTopic('scenes')
      for (const [number, { acts }] of scenes.entries()) committed.push(await perform(topic, acts, nameOf(number)))
      const end = await endOf(topic)
      const truth = await java?.read(kafka.brokers, topic)
      const keysOf = (records: readonly { key: unknown }[]) => records.map(({ key }) => String(key))
      if (truth) readings.set('the Java client', keysOf(truth))
      readings.set('the range reader', keysOf(await readRange(topic, end)))
      for (const maxBytes of [200, 1_000, 2 ** 20])
        readings.set(`the consumer, ${maxBytes} bytes a fetch`, await readGroup(topic, end, maxBytes))
    })

    for (const [number, { name }] of scenes.entries()) {
      const ofScene = (keys: readonly string[]) => keys.filter(key => key.startsWith(nameOf(number)))
      it(`shows of ${name} what was committed`, () => {
        for (const [reader, keys] of readings) expect(ofScene(keys), reader).to.deep.equal(committed[number])
      })
    }
  })

  // It stayed before such a batch for ever.
  it('passes a batch that compaction has emptied', async () => {
    const topic = await createTopic('compacted', {
      'cleanup.policy': 'compact',
      'segment.ms': '50',
      'min.cleanable.dirty.ratio': '0.001',
      'delete.retention.ms': '0',
    })
    await perform(topic, [send(0, 20), commit(0)])
    const overwrite = async () => {
      const transaction = await (producers[1] as Producer).transaction()
      const messages = Array.from({ length: 20 }, (_, at) => ({ key: `t0-0-${at}`, value: 'later', partition: 0 }))
      await transaction.send({ topic, acks: -1, messages })
      await transaction.commit()
    }
    // The cleaner looks every 15 s, and at closed segments only: each new record closes the one before.
    const records = await eventually(
      async () => {
        await overwrite()
        const all = await readRange(topic, await endOf(topic))
        return (all[0]?.offset ?? 0) >= 20 && all
      },
      'the first batch to be compacted',
      150_000,
    )
    const end = await endOf(topic)
    expect(new Set(await readGroup(topic, end, 100))).to.deep.equal(new Set(records.map(({ key }) => key)))
    // The cleaner may still be at work between two readings.
    if (java)
      await eventually(async () => {
        const truth = (await java?.read(kafka.brokers, topic)) ?? []
        const shown = truth.map(({ offset, key }) => ({ offset, key: `${key}` }))
        return expect(await readRange(topic, end)).to.deep.equal(shown)
      })
  })

  // It ended.
  it('goes on when a broker goes away while it is asked for a coordinator', async () => {
    const topic = await createTopic('coordinator')
    const committed = await perform(topic, [send(0), commit(0)])
    expect(await readGroup(topic, await endOf(topic), 1_000, breakingSockets(3))).to.deep.equal(committed)
  })

  // It made one a millisecond.
  it('makes no timers while it is idle', async () => {
    const admin = kafka.newClient('idle').admin()
    await admin.connect()
    await admin.listTopics()
    const ended = Promise.withResolvers<void>()
    let [timers, ticks] = [0, 0]
    const clock = setInterval(() => void (++ticks === IDLE_TICKS && ended.resolve()), 1)
    // Of other timers in this process none is Kafka's.
    const isOfKafka = () => /kafka/.test(new Error().stack ?? '')
    const hook = createHook({ init: (_, type) => void (type === 'Timeout' && isOfKafka() && timers++) }).enable()
    await ended.promise
    hook.disable()
    clearInterval(clock)
    await admin.disconnect()
    expect(timers).to.equal(0)
  })

  it('creates topics that can be written at once', async () => {
    const names = Array.from({ length: 30 }, (_, number) => `${platform.namespace}created-${number}`)
    const topics = names.map(topic => ({ topic, numPartitions: 8 }))
    await withAdmin(kafka, admin => createTopics(admin, topics))
    const messages = Array.from({ length: 8 }, (_, partition) => ({ value: 'x', partition }))
    const producer = kafka.newClient('once', { retry: { retries: 0 } }).producer()
    await producer.connect()
    const sent = await producer
      .sendBatch({ topicMessages: names.map(topic => ({ topic, messages })) })
      .finally(() => producer.disconnect())
    expect(sent).to.have.length(30 * 8)
  })
})
