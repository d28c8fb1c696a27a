import { expect } from 'chai'
import { type Codec, DecodeError, UnknownEvent } from '#infra/kafka/codec.ts'
import type { Log } from '#infra/runtime/log.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import { openDeadLetters } from '#streams/runner/dead-letters.ts'
import { decodeRecord, isDecoded } from '#streams/runner/decoding.ts'
import { groupErrorIn } from '#streams/runner/group-loop.ts'
import type { Outcome } from '#streams/runner/outcome.ts'

/** A codec of JSON instead of Avro. */
function jsonCodec(): Codec {
  return {
    prepare: async () => undefined,
    encode: (event, value) => Buffer.from(JSON.stringify({ event: event.name, value })),
    decode(buffer) {
      const id = buffer[0] ?? 0
      if (id === 9) throw new DecodeError('bytes end too early')
      if (id === 8) throw new UnknownEvent('BookMerged')
      if (id === 5) throw new Error('schema id 5 was not fetched')
      return { event: 'AskObserved', value: { id } }
    },
    learn: async () => undefined,
  }
}

function open(now = Date.now) {
  const lines: Record<string, unknown>[] = []
  const metrics = openMetrics()
  const log = { warn: (line: Record<string, unknown>) => void lines.push(line) } as unknown as Log
  const letterOf = openDeadLetters({ group: 'book', codec: jsonCodec(), metrics, log, now })
  const counted = async () => {
    const { values } = (await metrics.registry.getSingleMetric('marketlog_records_total')?.get()) ?? { values: [] }
    return values.map(({ labels, value }) => `${labels.outcome} ${labels.reason} ${value}`)
  }
  return { letterOf, lines, counted }
}

const record = { topic: 'market.quotes', partition: 3, offset: 17, key: 'p', value: Buffer.from('raw') } as const
const letter: Outcome = { kind: 'deadLetter', reason: 'undecodable', detail: 'no schema id in front' }

describe('runner outcomes', () => {
  it('write nothing for ok, retry and skip, which is counted by its reason', async () => {
    const { letterOf, counted } = open()
    for (const outcome of [{ kind: 'ok' }, { kind: 'retry', afterMs: 5 }, { kind: 'skip', reason: 'stale' }] as const)
      expect(letterOf(record, outcome)).to.equal(undefined)
    expect(await counted()).to.deep.equal(['skip stale 1'])
  })

  it('keep a dead letter with its origin, key and bytes, count it and say so', async () => {
    const { letterOf, lines, counted } = open()
    const written = letterOf(record, letter)
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
    const { letterOf, lines, counted } = open()
    const unknown: Outcome = { kind: 'unresolved', name: 'AK-48', phase: null, provider: 'p', observedAt: 5 }
    const written = letterOf(record, unknown)
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
    const { letterOf, lines, counted } = open(() => now)
    for (const linesBy of [5, 10]) {
      for (let count = 0; count < 250; count++) letterOf(record, letter)
      expect(lines).to.have.length(linesBy)
      now += 1_000
    }
    expect(await counted()).to.deep.equal(['deadLetter undecodable 500'])
  })
})

describe('runner decoding', () => {
  const codec = jsonCodec()

  it('makes an empty value and foreign bytes dead letters', () => {
    expect(decodeRecord(codec, 'quotes', null)).to.include({ kind: 'deadLetter', reason: 'empty' })
    expect(decodeRecord(codec, 'quotes', Buffer.of(9))).to.include({ kind: 'deadLetter', reason: 'undecodable' })
  })

  it('tells an event of a newer version from a broken record, also one that it knows from another topic', () => {
    const found = [decodeRecord(codec, 'quotes', Buffer.of(8)), decodeRecord(codec, 'fx', Buffer.of(1))]
    expect(found).to.deep.equal([
      { kind: 'unknown', event: 'BookMerged' },
      { kind: 'unknown', event: 'AskObserved' },
    ])
    const known = decodeRecord(codec, 'quotes', Buffer.of(1))
    expect([...found, known].map(isDecoded)).to.deep.equal([false, false, true])
  })

  it('throws where a schema was not fetched: that says nothing of the record', () => {
    expect(() => decodeRecord(codec, 'quotes', Buffer.of(5))).to.throw('was not fetched')
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
