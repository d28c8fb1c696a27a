/**
 * Sends that meet two leaders, one of which fails: nothing that was sent is lost or doubled.
 *
 * kafkajs remembered answers by broker and repeated while other requests were under way: partitions that moved to a broker that had
 * answered were never sent, and records of a slow one came twice, in transactions that committed. The brokers are scripted.
 */
import { setTimeout as delay } from 'node:timers/promises'
import { expect } from 'chai'
import { Kafka, logLevel } from '#infra/kafka/client/kafkajs.ts'
import { openScriptedBrokers, type ProducedBatch, type Reaction } from '#test/fixtures/scripted-brokers.ts'

const TOPIC = 'market.book-changes'
const NOT_LEADER = 6
const MESSAGE_TOO_LARGE = 10
const SLOW_MS = 400
const SENDS = [
  { 0: ['a0', 'a1'], 1: ['b0', 'b1'] },
  { 0: ['a2'], 1: ['b2'] },
]
const LEADERS: [partition: number, node: number][] = [0, 1].map(partition => [partition, partition + 1])
const WHOLE = { 0: ['a0', 'a1', 'a2'], 1: ['b0', 'b1', 'b2'] }

type React = (
  move: (partition: number, node: number) => void,
) => (node: number, batches: ProducedBatch[], number: number) => Reaction

/** Sends, one after the other, to brokers that answer as scripted; all in one transaction where there is an id for one. */
async function sendTo(
  react: React,
  options: { transactionalId?: string; sends?: typeof SENDS; retries?: number } = {},
) {
  const { transactionalId, sends = SENDS, retries = 20 } = options
  const brokers = await openScriptedBrokers({
    topic: TOPIC,
    leaders: LEADERS,
    react: react((partition, node) => brokers.leaders.set(partition, node)),
  })
  const retry = { initialRetryTime: 20, maxRetryTime: 50, retries }
  const client = new Kafka({ clientId: 'test', brokers: brokers.addresses, logLevel: logLevel.NOTHING })
  const producer = client.producer({
    idempotent: true,
    ...(transactionalId !== undefined && { transactionalId }),
    retry,
  })
  try {
    await producer.connect()
    const transaction = transactionalId === undefined ? undefined : await producer.transaction()
    const areSent: boolean[] = []
    for (const byPartition of sends) {
      const messages = Object.entries(byPartition).flatMap(([partition, keys]) =>
        keys.map(key => ({ key, value: '', partition: Number(partition) })),
      )
      const sent = (transaction ?? producer).sendBatch({ acks: -1, topicMessages: [{ topic: TOPIC, messages }] })
      areSent.push(await sent.then(() => true).catch(() => false))
    }
    await (areSent.includes(false) ? transaction?.abort() : transaction?.commit())
    return { areSent, log: brokers.log(), requests: brokers.requests }
  } finally {
    await producer.disconnect()
    await brokers.close()
  }
}

/** Broker 1 takes its records and answers; broker 2, which then answers, has just lost its partition to broker 1. */
const moved: React = move => {
  const taken = Promise.withResolvers<void>()
  return node => {
    if (node === 1) {
      taken.resolve()
      return {}
    }
    move(1, 1)
    return { errors: { 1: NOT_LEADER }, until: taken.promise }
  }
}

/** Broker 1 takes its records and answers late; broker 2 refuses at once, and not again. */
const slow: React = () => {
  let isRefused = false
  return node => {
    if (node === 1) return { until: delay(SLOW_MS) }
    if (isRefused) return {}
    isRefused = true
    return { errors: { 1: NOT_LEADER } }
  }
}

/** Broker 2 takes its records and breaks the connection before it answers, once. */
const cut: React = () => {
  let isCut = false
  return node => {
    if (node === 1 || isCut) return {}
    isCut = true
    return { isCut }
  }
}

describe('sends over several leaders', () => {
  for (const [name, react] of [
    ['that lose a partition to each other', moved],
    ['of which one is slow', slow],
  ] as const) {
    it(`write records once, in order, to brokers ${name}`, async () => {
      const { areSent, log } = await sendTo(react)
      expect(areSent).to.deep.equal([true, true])
      expect(log).to.deep.equal(WHOLE)
    })

    it(`fail a transaction at once, and show nothing of it, at brokers ${name}`, async () => {
      const { areSent, log, requests } = await sendTo(react, { transactionalId: 'book-0', sends: SENDS.slice(0, 1) })
      expect(areSent).to.deep.equal([false])
      expect(log).to.deep.equal({ 0: [], 1: [] })
      expect(requests.map(({ node }) => node).sort(), 'one request to each broker').to.deep.equal([1, 2])
    })
  }

  it('repeat records with the same sequence when a connection breaks before the answer', async () => {
    const { areSent, log, requests } = await sendTo(cut)
    expect(areSent).to.deep.equal([true, true])
    expect(log).to.deep.equal(WHOLE)
    const [first, repeated] = requests.filter(({ node }) => node === 2)
    expect(repeated).to.deep.equal(first)
  })

  it('never give the sequences of records that may be written to others', async () => {
    const isAlwaysCut: React = () => (node, _, number) => ({ isCut: node === 2 && number < 4 })
    const { areSent, log } = await sendTo(isAlwaysCut, { retries: 1 })
    expect(areSent).to.deep.equal([false, true])
    expect(log[1], 'as many records as before, and yet not taken for them').to.deep.equal(WHOLE[1])
  })

  it('report an error that no repeat mends after what other brokers took has settled', async () => {
    const tooLarge: React = () => node =>
      node === 1 ? { until: delay(SLOW_MS) } : { errors: { 1: MESSAGE_TOO_LARGE } }
    const sends = SENDS.slice(0, 1)
    const { areSent, log, requests } = await sendTo(tooLarge, { sends })
    expect(areSent).to.deep.equal([false])
    expect(log).to.deep.equal({ 0: ['a0', 'a1'], 1: [] })
    expect(requests).to.have.length(2)
  })
})
