import { expect } from 'chai'
import { checkEventSchemas, lockEventSchemas, type SchemaLock } from '#infra/checks/event-schemas.ts'
import { type AvroField, type AvroType, defineEvent, type EventSchema } from '#schemas/events/event.ts'

const SUBJECT = 'marketlog.Asked'

/** An event of the given fields; a default makes a field optional for its readers. */
function asked(version: number, ...fields: AvroField[]): EventSchema<object> {
  const event = defineEvent('Asked', version, `Version ${version}.`, {})
  return { ...event, avro: { ...event.avro, fields } }
}

const field = (name: string, type: AvroType, ...standard: unknown[]): AvroField =>
  standard.length === 0 ? { name, type } : { name, type, default: standard[0] }

const price = field('price', 'long')
const locked = (...events: EventSchema<object>[]): SchemaLock => ({
  [SUBJECT]: events.map(({ version, avro }) => ({ version, avro })),
})

describe('event schemas', () => {
  const first = asked(1, price)
  const side = (...symbols: string[]) => field('side', { type: 'enum', name: 'Side', symbols })
  const breaks = (now: EventSchema<object>, rules: readonly string[], lock = locked(first)) =>
    expect(checkEventSchemas([now], lock).map(({ rule }) => rule)).to.deep.equal(rules)

  it('let pass an unchanged schema', () => breaks(first, []))
  it('let pass a new sentence of documentation', () =>
    breaks({ ...first, avro: { ...first.avro, doc: 'Other words.' } }, []))
  it('refuse a schema that was never released', () => breaks(first, ['schema-unlocked'], {}))
  it('refuse a new field with a default, not locked yet', () =>
    breaks(asked(2, price, field('fee', 'long', 0)), ['schema-unlocked']))
  it('refuse a new field under the old version', () =>
    breaks(asked(1, price, field('fee', 'long', 0)), ['schema-version']))
  it('refuse a new field without a default', () =>
    breaks(asked(2, price, field('fee', 'long')), ['schema-incompatible']))
  it('refuse a removed field without a default', () => breaks(asked(2), ['schema-incompatible']))
  it('refuse a wider type', () => breaks(asked(2, field('price', 'double')), ['schema-incompatible']))
  it('refuse another type', () =>
    breaks(asked(2, field('price', 'string')), ['schema-incompatible', 'schema-incompatible']))
  it('refuse a renamed field', () =>
    breaks(asked(2, field('amount', 'long')), ['schema-incompatible', 'schema-incompatible']))
  it('refuse a new symbol', () =>
    breaks(asked(2, side('ask', 'bid')), ['schema-incompatible'], locked(asked(1, side('ask')))))
  it('refuse a field that the version before the last cannot do without', () =>
    breaks(
      asked(3, field('fee', 'long', 0)),
      ['schema-incompatible'],
      locked(first, asked(2, field('price', 'long', 0))),
    ))

  it('refuse that a released event vanishes', () => {
    expect(checkEventSchemas([], locked(first)).map(({ rule }) => rule)).to.deep.equal(['schema-vanished'])
  })

  it('lock a compatible change beside what was released before, so that it passes', () => {
    const second = asked(2, price, field('fee', 'long', 0))
    const lock = lockEventSchemas([second], locked(first))
    expect(lock[SUBJECT]?.map(({ version }) => version)).to.deep.equal([1, 2])
    expect(checkEventSchemas([second], lock)).to.deep.equal([])
  })

  it('do not lock an incompatible change', () => {
    expect(() => lockEventSchemas([asked(2)], locked(first))).to.throw('cannot read')
  })
})
