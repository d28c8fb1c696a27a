/**
 * Batches are written by the client's own encoders. Interleaved and aborted transactions of a real broker are read
 * in test/integration/kafkajs.test.ts.
 */
import { expect } from 'chai'
import fc from 'fast-check'
import '#infra/kafka/client/kafkajs.ts'
import { decodeFetch } from '#infra/kafka/client/fetch-decoding.ts'
import { loadInternal } from '#infra/kafka/client/internals.ts'

interface Encoder {
  buffer: Buffer
  writeInt8(value: number): Encoder
  writeInt16(value: number): Encoder
  writeInt32(value: number): Encoder
  writeInt64(value: number): Encoder
  writeString(value: string): Encoder
  writeBuffer(value: Buffer): Encoder
}

const EncoderClass = loadInternal('protocol/encoder') as new () => Encoder
const encodeRecord = loadInternal('protocol/recordBatch/record/v0') as (fields: object) => Encoder
const encodeBatch = loadInternal('protocol/recordBatch/v0') as ((fields: object) => Promise<Encoder>) & object
const { RecordBatch } = encodeBatch as unknown as { RecordBatch: (fields: object) => Promise<Encoder> }
const GZIP = 1

const bytes = fc.oneof(
  fc.constant(null),
  fc.uint8Array({ maxLength: 40 }).map(some => Buffer.from(some)),
  fc.uint8Array({ minLength: 8_190, maxLength: 8_200 }).map(some => Buffer.from(some)),
)
const record = fc.record({
  key: bytes,
  value: bytes,
  timestampDelta: fc.oneof(fc.integer({ min: 0, max: 70 }), fc.integer({ min: -(2 ** 35), max: 2 ** 35 })),
  headers: fc.constantFrom({}, { trace: 'abc' }),
})
const batch = fc.record({
  records: fc.array(record, { minLength: 4, maxLength: 12 }),
  firstOffset: fc.integer({ min: 0, max: 2 ** 45 }),
  firstTimestamp: fc.integer({ min: 0, max: 2 ** 42 }),
  compression: fc.constantFrom(0, GZIP),
  transactional: fc.boolean(),
  isAppendTime: fc.boolean(),
})
type GivenBatch = typeof batch extends fc.Arbitrary<infer T> ? T : never

/** How many bytes of a record set a fetch brings: all, a share, or a few. */
const cutOff = fc.oneof(
  fc.constant((whole: number) => whole),
  fc.integer({ min: 0, max: 100 }).map(percent => (whole: number) => Math.floor((whole * percent) / 100)),
  fc.integer({ min: 0, max: 70 }).map(few => (whole: number) => Math.min(few, whole)),
)

const ATTRIBUTES_AT = 21
const MAX_DELTA = 5
const LOG_APPEND_TIME = 0x8

async function bytesOf(given: GivenBatch): Promise<Buffer> {
  const { firstOffset, firstTimestamp, compression, transactional } = given
  const records = given.records.map((fields, offsetDelta) => encodeRecord({ ...fields, offsetDelta }))
  const { buffer } = await RecordBatch({
    firstOffset,
    firstTimestamp,
    maxTimestamp: firstTimestamp + MAX_DELTA,
    compression,
    transactional,
    partitionLeaderEpoch: 0,
    producerId: 7,
    producerEpoch: 0,
    firstSequence: 0,
    records,
    lastOffsetDelta: records.length - 1,
  })
  const made = Buffer.from(buffer)
  if (given.isAppendTime) made.writeInt16BE(made.readInt16BE(ATTRIBUTES_AT) | LOG_APPEND_TIME, ATTRIBUTES_AT)
  return made
}

const recordsOf = ({ records, firstOffset, firstTimestamp, isAppendTime }: GivenBatch) =>
  records.map(({ key, value, timestampDelta }, at) => ({
    partition: 3,
    offset: firstOffset + at,
    key,
    value,
    timestamp: firstTimestamp + (isAppendTime ? MAX_DELTA : timestampDelta),
  }))

/** An answer of Fetch that holds some bytes of one partition. */
const answerWith = (set: Buffer): Buffer =>
  new EncoderClass()
    .writeInt32(0)
    .writeInt16(0)
    .writeInt32(0)
    .writeInt32(1)
    .writeString('topic')
    .writeInt32(1)
    .writeInt32(3)
    .writeInt16(0)
    .writeInt64(900)
    .writeInt64(800)
    .writeInt64(0)
    .writeInt32(0)
    .writeInt32(-1)
    .writeInt32(set.length)
    .writeBuffer(set).buffer

describe('fetch decoding', () => {
  /** Compares fetches of a seed, or random ones, with what was encoded; returns how many records they held. */
  async function compared(options: { numRuns: number; seed?: number }): Promise<number> {
    let count = 0
    await fc.assert(
      fc.asyncProperty(fc.array(batch, { minLength: 1, maxLength: 4 }), cutOff, async (given, cut) => {
        const whole = await Promise.all(given.map(bytesOf))
        const set = Buffer.concat(whole)
        // A fetch ends anywhere.
        const end = cut(set.length)
        const { responses } = await decodeFetch(answerWith(set.subarray(0, end)))
        const isWhole = (number: number) => Buffer.concat(whole.slice(0, number + 1)).length <= end
        const expected = given.filter((_, number) => isWhole(number)).flatMap(recordsOf)
        const partition = responses[0]?.partitions[0]
        expect(partition?.records).to.deep.equal(expected)
        expect(partition).to.include({ partition: 3, errorCode: 0, end: 900, stableEnd: 800 })
        count += expected.length
      }),
      options,
    )
    return count
  }

  it('gives the records of whole batches alone', async () => {
    expect(await compared({ seed: 1, numRuns: 75 })).to.be.above(200)
    await compared({ numRuns: 75 })
  })

  it('returns the offset of the next fetch, and none for an empty answer', async () => {
    const one = { key: null, value: Buffer.from('v'), timestampDelta: 0, headers: {} }
    const given = { firstTimestamp: 5, compression: 0 as const, transactional: false, isAppendTime: false }
    const set = await bytesOf({ ...given, firstOffset: 40, records: [one, one, one] })
    const next = async (bytes: Buffer) => (await decodeFetch(answerWith(bytes))).responses[0]?.partitions[0]?.next
    expect([await next(set), await next(set.subarray(0, -1)), await next(Buffer.alloc(0))]).to.deep.equal([
      43,
      undefined,
      undefined,
    ])
  })
})
