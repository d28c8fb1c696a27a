/**
 * The originals are loaded from the pinned package by file before anything else: this test
 * never loads infra/kafka/client/kafkajs.ts, which would replace them.
 */
import { createRequire } from 'node:module'
import { expect } from 'chai'
import fc from 'fast-check'
import { recordEncoder } from '#infra/kafka/client/record-encoding.ts'

interface Fields {
  key?: Buffer | string | null
  value: Buffer | string | null
  offsetDelta?: number
  timestampDelta?: number
  headers?: Record<string, unknown>
}

const load = createRequire(import.meta.url)
const original = load('kafkajs/src/protocol/recordBatch/record/v0/index.js') as (fields: Fields) => {
  buf: Buffer
  buffer: Buffer
}

const content = fc.oneof(
  fc.constant(null),
  fc.string({ maxLength: 300 }),
  fc.string({ unit: 'binary', maxLength: 50 }),
  fc.uint8Array({ maxLength: 20_000 }).map(bytes => Buffer.from(bytes)),
)
const delta = fc.oneof(fc.integer({ min: 0, max: 200 }), fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }))

describe('record encoding', () => {
  it('encodes a record as the original does', () => {
    const encode = recordEncoder(original)
    fc.assert(
      fc.property(content, content, delta, delta, (key, value, offsetDelta, timestampDelta) => {
        const fields = { key, value, offsetDelta, timestampDelta }
        expect(encode(fields).buffer.equals(original(fields).buffer)).to.equal(true)
      }),
      { numRuns: 500 },
    )
  })

  it('hands a record with headers to the original', () => {
    const fields = { key: 'k', value: 'v', offsetDelta: 1, timestampDelta: 2, headers: { trace: 'abc' } }
    expect(recordEncoder(original)(fields).buffer.equals(original(fields).buffer)).to.equal(true)
  })
})
