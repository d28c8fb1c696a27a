import { expect } from 'chai'
import { type Codec, DecodeError, UnknownEvent, UnknownWriter } from '#infra/kafka/codec.ts'
import type { Log } from '#infra/runtime/log.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import { openDeadLetters } from '#streams/runner/dead-letters.ts'
import { decodeNow, decodeSlowly, expectedIn, isDecoded } from '#streams/runner/decoding.ts'
import { groupErrorIn } from '#streams/runner/group-errors.ts'
import type { Outcome } from '#streams/runner/outcome.ts'

/** A codec of JSON instead of Avro that knows the id 1 and can be taught the id 2. */
function jsonCodec(): Codec {
  const known = new Set([1])
  return {
    prepare: async () => undefined,
    encode: (event, value) => Buffer.from(JSON.stringify({ event: event.name, value })),
    decode(buffer) {
      const id = buffer[0] ?? 0
      if (id === 9) throw new DecodeError('bytes end too early')
      if (id === 8) throw new UnknownEvent('BookMerged')
      if (!known.has(id)) throw new UnknownWriter(id)
      return { event: 'AskObserved', value: { id } }
    },
    plain: () => undefined,
    async learn(id) {
      if (id === 5) throw new Error('the registry does not answer')
      if (id !== 2) return false
      known.add(id)
      return true
    },
  }
}

function open(now = Date.now) {
  const lines: Record<string, unknown>[] = []
  const metrics = openMetrics()
  const log = { warn: (line: Record<string, unknown>) => void lines.push(line) } as unknown as Log
  const deadLetters = openDeadLetters({ group: 'book', codec: jsonCodec(), metrics, log, now })
  const counted = async () => {
    const { values } = (await metrics.registry.getSingleMetric('marketlog_records_total')?.get()) ?? { values: [] }
    return values.map(({ labels, value }) => `${labels.outcome} ${labels.reason} ${value}`)
  }
  return { deadLetters, lines, counted }
}

const record = { topic: 'market.quotes', partition: 3, offset: 17, key: 'p', value: Buffer.from('raw') } as const
const letter: Outcome = { kind: 'deadLetter', reason: 'undecodable', detail: 'no schema id in front' }

describe('runner outcomes', () => {
  it('write nothing for ok and retry', async () => {
    const { deadLetters, counted } = open()
    expect(deadLetters.recordOf(record, { kind: 'ok' })).to.equal(undefined)
    expect(deadLetters.recordOf(record, { kind: 'retry', afterMs: 5 })).to.equal(undefined)
    expect(await counted()).to.deep.equal([])
  })

  it('count a skip by its reason and write nothing', async () => {
    const { deadLetters, counted } = open()
    expect(deadLetters.recordOf(record, { kind: 'skip', reason: 'stale' })).to.equal(undefined)
    expect(await counted()).to.deep.equal(['skip stale 1'])
  })

  it('keep a dead letter with its origin, key and bytes, count it and say so', async () => {
    const { deadLetters, lines, counted } = open()
    const written = deadLetters.recordOf(record, letter)
    expect(written).to.include({ topic: 'deadLetters', partition: 0, key: 'book' })
    expect(JSON.parse(String(written?.value)).value).to.deep.include({
      group: 'book',
      topic: 'market.quotes',
      partition: 3,
      offset: 17,
      reason: 'undecodable',
      detail: 'no schema id in front',
      key: Buffer.from('p').toJSON(),
      value: Buffer.from('raw').toJSON(),
    })
    expect(await counted()).to.deep.equal(['deadLetter undecodable 1'])
    expect(lines).to.have.length(1)
    expect(lines[0]).to.include({ topic: 'market.quotes', offset: 17, reason: 'undecodable' })
  })

  it('keep an unknown name under that name, with the raw record, count it and say so', async () => {
    const { deadLetters, lines, counted } = open()
    const unknown: Outcome = { kind: 'unresolved', name: 'AK-48', phase: null, provider: 'p', observedAt: 5 }
    const written = deadLetters.recordOf(record, unknown)
    expect(written).to.include({ topic: 'unresolved', partition: 0, key: 'AK-48' })
    expect(JSON.parse(String(written?.value)).value).to.include({
      market_hash_name: 'AK-48',
      provider: 'p',
      offset: 17,
    })
    expect(await counted()).to.deep.equal(['unresolved unknown_name 1'])
    expect(lines.map(({ reason, detail }) => [reason, detail])).to.deep.equal([['unknown_name', 'p: AK-48']])
  })

  it('say at most five lines a second of one reason and count them all', async () => {
    let now = Date.UTC(2026, 2, 3)
    const { deadLetters, lines, counted } = open(() => now)
    for (const linesBy of [5, 10]) {
      for (let count = 0; count < 250; count++) deadLetters.recordOf(record, letter)
      expect(lines).to.have.length(linesBy)
      now += 1_000
    }
    expect(await counted()).to.deep.equal(['deadLetter undecodable 500'])
  })
})

describe('runner decoding', () => {
  const codec = jsonCodec()

  it('makes an empty value and foreign bytes dead letters', () => {
    expect(decodeNow(codec, null)).to.include({ kind: 'deadLetter', reason: 'empty' })
    expect(decodeNow(codec, Buffer.of(9))).to.include({ kind: 'deadLetter', reason: 'undecodable' })
  })

  it('fetches a schema that it meets for the first time', async () => {
    expect(decodeNow(codec, Buffer.of(2))).to.equal(undefined)
    expect(await decodeSlowly(codec, Buffer.of(2))).to.deep.equal({ event: 'AskObserved', value: { id: 2 } })
  })

  it('makes an id that the registry does not know a dead letter', async () => {
    expect(await decodeSlowly(codec, Buffer.of(7))).to.include({
      kind: 'deadLetter',
      reason: 'undecodable',
      detail: 'schema id 7 is unknown',
    })
  })

  it('tells an event of a newer version from a broken record, also one that it knows from another topic', () => {
    const unknown = decodeNow(codec, Buffer.of(8)) ?? expect.fail('nothing was decoded')
    expect(unknown).to.include({ kind: 'unknown', event: 'BookMerged' })
    expect([unknown, expectedIn('quotes', unknown)].map(isDecoded)).to.deep.equal([false, false])
    const known = decodeNow(codec, Buffer.of(1)) ?? expect.fail('nothing was decoded')
    expect([expectedIn('quotes', known), isDecoded(known)]).to.deep.equal([known, true])
    expect(expectedIn('fx', known)).to.include({ kind: 'unknown', event: 'AskObserved' })
  })

  it('throws when the registry does not answer: that says nothing of the record', async () => {
    const error = await decodeSlowly(codec, Buffer.of(5)).catch(thrown => thrown)
    expect(error).to.be.instanceOf(Error).with.property('message', 'the registry does not answer')
  })
})

describe('runner group errors', () => {
  for (const type of ['ILLEGAL_GENERATION', 'NOT_COORDINATOR_FOR_GROUP', 'REBALANCE_IN_PROGRESS', 'UNKNOWN_MEMBER_ID'])
    it(`${type} means to join again, also as a cause`, () => {
      const bare = { type }
      expect(groupErrorIn(bare)).to.equal(bare)
      expect(groupErrorIn({ name: 'KafkaJSNonRetriableError', cause: bare })).to.equal(bare)
    })

  it('a fenced producer is no group error', () => {
    expect(groupErrorIn({ type: 'PRODUCER_FENCED' })).to.equal(undefined)
    expect(groupErrorIn(new Error('any'))).to.equal(undefined)
  })
})
