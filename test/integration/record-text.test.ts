import { expect } from 'chai'
import fc from 'fast-check'
import { type Codec, openCodec } from '#infra/kafka/codec.ts'
import type { LogRecord } from '#infra/kafka/range-reader.ts'
import { registerSchemas } from '#infra/kafka/schema-registry.ts'
import { catalogItemPublished } from '#schemas/events/catalog-item-published.ts'
import type { AvroType, EventSchema } from '#schemas/events/event.ts'
import { fxRatesPublished } from '#schemas/events/fx-rates-published.ts'
import { allTopics, type TopicDefinition } from '#schemas/topics.ts'
import { openRecordText, showRecord } from '#services/cli/log-tools/record-text.ts'
import { useServers } from '#test/harness/use-servers.ts'

const topics: readonly TopicDefinition[] = allTopics
const HEADER_BYTES = 5
/** As a zigzag varint. */
const TWO_BILLION = Buffer.from([0x80, 0xd0, 0xac, 0xf3, 0x0e])

const damage = fc.oneof(
  { weight: 6, arbitrary: fc.constant((bytes: Buffer) => bytes) },
  { weight: 2, arbitrary: fc.nat().map(at => (bytes: Buffer) => bytes.subarray(0, at % bytes.length)) },
  {
    weight: 3,
    arbitrary: fc.tuple(fc.nat(), fc.nat(255)).map(([at, byte]) => (bytes: Buffer) => {
      const changed = Buffer.from(bytes)
      // The schema's own id is left: another one is another event.
      changed[HEADER_BYTES + (at % Math.max(1, bytes.length - HEADER_BYTES))] = byte
      return changed
    }),
  },
  { weight: 1, arbitrary: fc.constant((bytes: Buffer) => Buffer.concat([bytes, Buffer.from('x')])) },
)

const position = fc.record({
  partition: fc.nat(64),
  offset: fc.oneof(fc.nat(20), fc.maxSafeNat()),
  key: fc.oneof(
    fc.constant(null),
    fc.string({ unit: 'grapheme' }).map(text => Buffer.from(text)),
  ),
  timestamp: fc.oneof(fc.constant(-1), fc.nat(2_000_000_000_000)),
})

type Named = Map<string, fc.Arbitrary<unknown>>

const PRIMITIVES: Record<string, fc.Arbitrary<unknown> | undefined> = {
  null: fc.constant(null),
  boolean: fc.boolean(),
  int: fc.oneof(fc.integer(), fc.integer({ min: -70, max: 70 })),
  long: fc.oneof(
    fc.integer({ min: -70, max: 70 }),
    fc.maxSafeInteger().filter(value => Math.abs(value) < 2 ** 53 - 2),
  ),
  double: fc.double(),
  string: fc.oneof(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'binary-ascii', maxLength: 80 })),
  bytes: fc.uint8Array({ maxLength: 40 }).map(some => Buffer.from(some)),
}

/** Random values of any event, made from its own Avro fields, so every value can be written with its schema. */
const eventValues = ({ avro }: EventSchema<object>): fc.Arbitrary<object> =>
  valuesOf(avro as unknown as AvroType, new Map()) as fc.Arbitrary<object>

function valuesOf(type: AvroType, named: Named): fc.Arbitrary<unknown> {
  if (Array.isArray(type)) return fc.oneof(...type.map(each => valuesOf(each, named)))
  const { type: kind, ...attributes } = typeof type === 'string' ? { type } : type
  const known = PRIMITIVES[kind] ?? named.get(kind)
  if (known) return known
  const made = complexOf(kind, attributes, named)
  if (typeof attributes.name === 'string') named.set(attributes.name, made)
  return made
}

function complexOf(kind: string, attributes: Record<string, unknown>, named: Named): fc.Arbitrary<unknown> {
  if (kind === 'enum') return fc.constantFrom(...(attributes.symbols as string[]))
  if (kind === 'array') return fc.array(valuesOf(attributes.items as AvroType, named), { maxLength: 3 })
  if (kind === 'map') return fc.dictionary(fc.string(), valuesOf(attributes.values as AvroType, named), { maxKeys: 3 })
  if (kind !== 'record') throw new Error(`no values of the Avro type ${kind}`)
  const fields = attributes.fields as { name: string; type: AvroType }[]
  return fc.record(Object.fromEntries(fields.map(({ name, type }) => [name, valuesOf(type, named)])))
}

describe('lines of records', () => {
  const platform = useServers({ setUp: false })
  /** One that wrote the events and one that meets their writers for the first time. */
  let writer: Codec
  let reader: Codec

  before(async () => {
    const { servers, registry: settings } = platform.config
    const options = { registry: { url: servers.schemaRegistry, settings }, namespace: platform.namespace }
    await registerSchemas(options)
    writer = openCodec(options)
    reader = openCodec(options)
    await writer.prepare(topics.flatMap(({ events }) => events))
  })

  const linesOf = async (topic: TopicDefinition, records: readonly LogRecord[], isRaw: boolean) => {
    await reader.learn(records)
    return openRecordText(reader, topic, isRaw)(records).toString()
  }

  it('are what JSON.stringify makes of the decoded record', async () => {
    for (const topic of topics) {
      for (const event of topic.events) {
        const records = fc.array(
          fc.tuple(position, eventValues(event), damage).map(([where, value, change]): LogRecord => {
            return { ...where, value: change(writer.encode(event, value)) }
          }),
          { minLength: 1, maxLength: 30 },
        )
        const property = fc.asyncProperty(records, async some => {
          const lines = await linesOf(topic, some, false)
          const shown = some.map(record => showRecord(reader, topic.name, record))
          expect(lines).to.equal(shown.map(one => `${JSON.stringify(one)}\n`).join(''))
        })
        await fc.assert(property, { numRuns: 20 })
      }
    }
  })

  for (const { event, field } of [
    { event: catalogItemPublished, field: 'crates' },
    { event: fxRatesPublished, field: 'rates' },
  ] as { event: EventSchema<object>; field: string }[])
    it(`show as bytes what claims more ${field} than it has room for, and build none of them`, async () => {
      const [topic] = topics.filter(({ events }) => events.some(({ name }) => name === event.name))
      const header = writer.encode(event, fc.sample(eventValues(event), 1)[0] ?? {}).subarray(0, HEADER_BYTES)
      // A zero is an empty string, null, false, 0 and the first symbol.
      const before = Buffer.alloc(event.avro.fields.findIndex(({ name }) => name === field))
      const value = Buffer.concat([header, before, TWO_BILLION])
      const record = { partition: 0, offset: 0, key: null, timestamp: 0, value }
      expect(JSON.parse(await linesOf(topic ?? expect.fail('no topic'), [record], false))).to.include({
        event: null,
        value: value.toString('base64'),
      })
    })

  it('hold the bytes as they are when asked to', async () => {
    const [topic] = topics as [TopicDefinition]
    const value = Buffer.from('no event "of" ours')
    const record = { partition: 3, offset: 2 ** 40, key: Buffer.from('a"b'), timestamp: 1_772_582_400_000 }
    const lines = await linesOf(
      topic,
      [
        { ...record, value },
        { ...record, key: null, value: null },
      ],
      true,
    )
    expect(
      lines
        .trim()
        .split('\n')
        .map(line => JSON.parse(line)),
    ).to.deep.equal([
      { topic: topic.name, ...record, key: 'a"b', raw: value.toString('base64') },
      { topic: topic.name, ...record, key: null, raw: null },
    ])
  })
})
