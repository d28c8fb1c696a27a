/**
 * Schema evolution: what FULL_TRANSITIVE refuses is refused before the registry is asked, and nothing
 * is released by accident.
 */
import { expect } from 'chai'
import { checkEventSchemas, lockEventSchemas, type SchemaLock } from '#infra/checks/event-schemas.ts'
import { type AvroField, type AvroType, defineEvent, type EventSchema } from '#schemas/events/event.ts'

const SUBJECT = 'marketlog.Asked'

/** An event of the given fields; a default makes a field optional for its readers. */
function asked(version: number, ...fields: AvroField[]): EventSchema<object> {
  const event = defineEvent<Record<string, unknown>>('Asked', version, `Version ${version}.`, {})
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
  const cases = [
    { name: 'an unchanged schema', now: first, lock: locked(first), broken: [] },
    {
      name: 'a new sentence of documentation',
      now: { ...first, avro: { ...first.avro, doc: 'Other words.' } },
      lock: locked(first),
      broken: [],
    },
    { name: 'a schema that was never released', now: first, lock: {}, broken: ['schema-unlocked'] },
    {
      name: 'a new field with a default, not locked yet',
      now: asked(2, price, field('fee', 'long', 0)),
      lock: locked(first),
      broken: ['schema-unlocked'],
    },
    {
      name: 'a new field under the old version',
      now: asked(1, price, field('fee', 'long', 0)),
      lock: locked(first),
      broken: ['schema-version'],
    },
    {
      name: 'a new field without a default',
      now: asked(2, price, field('fee', 'long')),
      lock: locked(first),
      broken: ['schema-incompatible'],
    },
    { name: 'a removed field without a default', now: asked(2), lock: locked(first), broken: ['schema-incompatible'] },
    {
      name: 'a wider type',
      now: asked(2, field('price', 'double')),
      lock: locked(first),
      broken: ['schema-incompatible'],
    },
    {
      name: 'another type',
      now: asked(2, field('price', 'string')),
      lock: locked(first),
      broken: ['schema-incompatible', 'schema-incompatible'],
    },
    {
      name: 'a renamed field',
      now: asked(2, field('amount', 'long')),
      lock: locked(first),
      broken: ['schema-incompatible', 'schema-incompatible'],
    },
    {
      name: 'a new symbol',
      now: asked(2, side('ask', 'bid')),
      lock: locked(asked(1, side('ask'))),
      broken: ['schema-incompatible'],
    },
    {
      name: 'a field that the version before the last cannot do without',
      now: asked(3, field('fee', 'long', 0)),
      lock: locked(first, asked(2, field('price', 'long', 0))),
      broken: ['schema-incompatible'],
    },
  ]
  for (const { name, now, lock, broken } of cases)
    it(`${broken.length === 0 ? 'let pass' : 'refuse'} ${name}`, () => {
      expect(checkEventSchemas([now], lock).map(({ rule }) => rule)).to.deep.equal(broken)
    })

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
