import { expect } from 'chai'
import { type Codec, openCodec } from '#infra/kafka/codec.ts'
import { registerSchemas } from '#infra/kafka/schema-registry.ts'
import { catalogItemPublished } from '#schemas/events/catalog-item-published.ts'
import { deadLettered } from '#schemas/events/dead-lettered.ts'
import type { EventSchema } from '#schemas/events/event.ts'
import { fxRatesPublished } from '#schemas/events/fx-rates-published.ts'
import { saleObserved } from '#schemas/events/sale-observed.ts'
import { openRecordWriter } from '#services/cli/log-tools/record-text.ts'
import { collectOutput } from '#test/harness/collected-output.ts'
import { sold } from '#test/harness/published-records.ts'
import { smallCatalog } from '#test/harness/small-catalog.ts'
import { useServers } from '#test/harness/use-servers.ts'

const HEADER_BYTES = 5
/** As a zigzag varint. */
const TWO_BILLION = Buffer.from([0x80, 0xd0, 0xac, 0xf3, 0x0e])
const ORIGIN = { partition: 3, offset: 2 ** 40, key: Buffer.from('a"b'), timestamp: 1_772_582_400_000 }
const SALE = sold({ stickers: [{ name: 'a "sticker"\n', slot: 0, wear: 0.5 }], float: 0.1 })

describe('lines of records', () => {
  const platform = useServers({ setUp: false })
  let writer: Codec
  /** One that meets the writer's schemas for the first time. */
  let reader: Codec

  before(async () => {
    const { servers, registry: settings } = platform.config
    const options = { registry: { url: servers.schemaRegistry, settings }, namespace: platform.namespace }
    await registerSchemas(options)
    writer = openCodec(options)
    reader = openCodec(options)
    await writer.prepare([saleObserved, deadLettered, fxRatesPublished, catalogItemPublished])
  })

  async function linesOf(values: readonly (Buffer | null)[], isRaw = false) {
    const records = values.map(value => ({ ...ORIGIN, value }))
    await reader.learn(records)
    const output = collectOutput()
    await openRecordWriter(reader, { name: 'market.sales' }, output.stream, isRaw)(records)
    return output.lines()
  }
  const shown = (members: object) => ({ topic: 'market.sales', ...ORIGIN, key: 'a"b', ...members })

  it('hold the decoded event, its bytes as base64', async () => {
    const key = Buffer.from([0, 255])
    const origin = { group: 'g', topic: 't', partition: 1, offset: 2 }
    const letter = { ...origin, key, value: null, reason: 'r', detail: 'd' }
    expect(await linesOf([writer.encode(saleObserved, SALE), writer.encode(deadLettered, letter), null])).to.deep.equal(
      [
        shown({ event: 'SaleObserved', value: SALE }),
        shown({ event: 'DeadLettered', value: { ...letter, key: key.toString('base64') } }),
        shown({ event: null, value: null }),
      ],
    )
  })

  it('hold the bytes as they are when asked to', async () => {
    const value = Buffer.from('no event "of" ours')
    expect(await linesOf([value, null], true)).to.deep.equal([
      shown({ raw: value.toString('base64') }),
      shown({ raw: null }),
    ])
  })

  it('show damaged bytes as they are, however they are damaged', async () => {
    const whole = writer.encode(saleObserved, SALE)
    const cut = Array.from(whole, (_, length) => whole.subarray(0, length))
    const longer = Buffer.concat([whole, Buffer.from('x')])
    const changed = Array.from(whole.subarray(HEADER_BYTES), (byte, at) => {
      const damaged = Buffer.from(whole)
      damaged[HEADER_BYTES + at] = byte ^ 0x80
      return damaged
    })
    const lines = await linesOf([longer, ...cut, ...changed])
    for (const [at, bytes] of [longer, ...cut].entries())
      expect(lines[at]).to.deep.equal(shown({ event: null, value: bytes.toString('base64') }))
    expect(lines).to.have.length(1 + cut.length + changed.length)
  })

  for (const { event, field } of [
    { event: catalogItemPublished, field: 'crates' },
    { event: fxRatesPublished, field: 'rates' },
  ] as { event: EventSchema<object>; field: string }[])
    it(`show as bytes what claims more ${field} than it has room for, and build none of them`, async () => {
      const item = { ...smallCatalog()[0], supply: null }
      const value = event.name === catalogItemPublished.name ? item : { as_of: 0, source: '', rates: {} }
      const header = writer.encode(event, value).subarray(0, HEADER_BYTES)
      // A zero is an empty string, null, false, 0 and the first symbol.
      const before = Buffer.alloc(event.avro.fields.findIndex(({ name }) => name === field))
      const bytes = Buffer.concat([header, before, TWO_BILLION])
      expect(await linesOf([bytes])).to.deep.equal([shown({ event: null, value: bytes.toString('base64') })])
    })
})
