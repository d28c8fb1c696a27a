import { expect } from 'chai'
import fc from 'fast-check'
import { covers, type LogPosition, openEventIds, unionOf } from '#services/feed/log-position.ts'
import { changesFrom, logs, PARTITIONS, START } from '#test/fixtures/feed-logs.ts'

const positions = fc
  .record({
    next: fc.array(fc.integer({ min: 0, max: 2 ** 48 }), { minLength: 3, maxLength: 3 }),
    lags: fc.dictionary(
      fc.string({ maxLength: 20 }).map(provider => `ask|${provider}`),
      fc.array(fc.integer({ min: 0, max: 1_000 }), { minLength: 3, maxLength: 3 }),
      { maxKeys: 4 },
    ),
  })
  .map(({ next, lags }): LogPosition => {
    const own = (lag: readonly number[]) => next.map((offset, at) => Math.max(0, offset - (lag[at] ?? 0)))
    return { next, behind: new Map(Object.entries(lags).map(([key, lag]) => [key, own(lag)])) }
  })

const ids = openEventIds('key', 'here', PARTITIONS)

describe('the id of an event', () => {
  it('is read as it was written: the position of its side', () => {
    fc.assert(
      fc.property(positions, fc.constantFrom('changes', 'snapshot'), (position, kind) => {
        const behind = new Map([...position.behind, ['bid|p', [0, 0, 0]]])
        expect(ids.read(ids.write({ ...position, behind }, 'ask', kind), 'ask', kind)).to.deep.equal(position)
      }),
    )
  })

  it('is accepted for its own side, kind, log and key alone', () => {
    const text = ids.write(START, 'ask')
    expect(ids.read(text, 'ask')).to.deep.equal(START)
    const others = [openEventIds('other', 'here', PARTITIONS), openEventIds('key', 'there', PARTITIONS)]
    const readings = [
      ids.read(text, 'bid'),
      ids.read(text, 'ask', 'snapshot'),
      ...others.map(one => one.read(text, 'ask')),
    ]
    readings.push(openEventIds('key', 'here', PARTITIONS + 1).read(text, 'ask'))
    expect(readings).to.deep.equal(readings.map(() => undefined))
  })

  it('is no other text', () => {
    const text = ids.write({ next: [5, 300, 70_000], behind: new Map([['ask|p', [1, 2, 3]]]) }, 'ask')
    for (let at = 0; at < text.length; at++) {
      const other = text[at] === 'A' ? 'B' : 'A'
      const changed = `${text.slice(0, at)}${other}${text.slice(at + 1)}`
      // Bits of the last character are none of the bytes.
      if (Buffer.from(changed, 'base64url').equals(Buffer.from(text, 'base64url'))) continue
      expect(ids.read(changed, 'ask'), `character ${at}`).to.equal(undefined)
    }
    for (const broken of ['', text.slice(0, -2), `${text}AA`, ` ${text}`, 'A'.repeat(5_000)])
      expect(ids.read(broken, 'ask')).to.equal(undefined)
    fc.assert(fc.property(fc.string(), any => ids.read(any, 'ask') === undefined))
  })
})

describe('a position in the log', () => {
  const choices = fc.infiniteStream(fc.nat(PARTITIONS - 1))
  const counts = fc.tuple(fc.nat(30), fc.nat(30))

  it('and another have a union, which includes what either does and no more', () => {
    fc.assert(
      fc.property(logs, choices, choices, counts, (log, order, otherOrder, [some, more]) => {
        const reachedBy = (choices: Iterator<number>, count: number) =>
          [
            ...changesFrom(log, choices, START)
              .take(count)
              .map(({ position }) => position()),
          ].at(-1) ?? START
        const restOf = (from: LogPosition) => [...changesFrom(log, order, from)].map(({ text }) => text).sort()
        const [one, other] = [reachedBy(order, some), reachedBy(otherOrder, more)]
        const union = unionOf(one, other)
        const [rest, otherRest] = [restOf(one), restOf(other)]
        expect(restOf(union)).to.deep.equal(rest.filter(text => otherRest.includes(text)))
        expect([covers(union, one), covers(union, other)]).to.deep.equal([true, true])
        if (covers(one, other)) expect(otherRest).to.include.members(rest)
      }),
      { numRuns: 300 },
    )
  })
})
