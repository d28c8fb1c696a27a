import { expect } from 'chai'
import fc from 'fast-check'
import { assignUnits, type MemberClaims } from '#infra/kafka/sticky-assignment.ts'

const named = (units: Record<string, number>): Record<string, string[]> =>
  Object.fromEntries(
    Object.entries(units).map(([unit, count]) => [unit, Array.from({ length: count }, (_, i) => `${i}`)]),
  )

const runs = named({ a: 3, b: 2, c: 2, d: 1 })
const member = (owned: string[] = [], generation = 1): MemberClaims => ({ runs, owned, generation })
const assign = (members: Record<string, MemberClaims>): Record<string, string[]> =>
  Object.fromEntries([...assignUnits(new Map(Object.entries(members)))].map(([id, units]) => [id, units.toSorted()]))

describe('sticky assignment', () => {
  it('gives all to one member that is alone', () =>
    expect(assign({ x: member() })).to.deep.equal({ x: ['a', 'b', 'c', 'd'] }))

  it('takes from the loaded for a newcomer no more than its share', () =>
    expect(assign({ x: member(['a', 'b', 'c', 'd']), y: member() })).to.deep.equal({ x: ['a', 'b'], y: ['c', 'd'] }))

  it('moves nothing when no member comes or goes', () =>
    expect(assign({ x: member(['b', 'd']), y: member(['a', 'c']) })).to.deep.equal({ x: ['b', 'd'], y: ['a', 'c'] }))

  it('leaves to a member what it has when another has gone', () =>
    expect(assign({ y: member(['a', 'c']), z: member(['d']) })).to.deep.equal({ y: ['a', 'c'], z: ['b', 'd'] }))

  it('believes the later generation when a member that was frozen claims what another has by now', () =>
    expect(assign({ x: member(['a', 'b'], 4), y: member(['a', 'd'], 7) })).to.deep.include({ y: ['a', 'd'] }))

  it('gives a unit only to members that can run it', () => {
    const only: MemberClaims = { runs: named({ e: 1 }), owned: ['a'], generation: 9 }
    expect(assign({ x: member(), y: only })).to.deep.equal({ x: ['a', 'b', 'c', 'd'], y: ['e'] })
  })

  it('assigns every unit once and evenly, alike in any order, and then moves nothing', () => {
    const given = fc.record({
      weights: fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 20 }),
      owners: fc.array(fc.integer({ min: 0, max: 6 }), { minLength: 20, maxLength: 20 }),
      count: fc.integer({ min: 1, max: 5 }),
    })
    fc.assert(
      fc.property(given, ({ weights, owners, count }) => {
        const all = named(Object.fromEntries(weights.map((weight, i) => [`u${i}`, weight])))
        const claims = Array.from({ length: count }, (_, m): [string, MemberClaims] => {
          const owned = Object.keys(all).filter((_, i) => owners[i] === m)
          return [`m${m}`, { runs: all, owned, generation: 1 }]
        })
        const answer = assignUnits(new Map(claims))
        expect([...answer.values()].flat().sort()).to.deep.equal(Object.keys(all).sort())
        const load = (units: readonly string[]) => units.reduce((sum, unit) => sum + (all[unit]?.length ?? 0), 0)
        const loads = [...answer.values()].map(load)
        const total = loads.reduce((sum, one) => sum + one, 0)
        expect(Math.max(...loads)).to.be.at.most(Math.ceil(total / count) + Math.max(...weights))
        expect(assignUnits(new Map(claims.toReversed()))).to.deep.equal(answer)
        const next = claims.map(([id, claim]): [string, MemberClaims] => [
          id,
          { ...claim, owned: answer.get(id) ?? [] },
        ])
        const again = [...assignUnits(new Map(next))].map(([id, units]) => [id, units.toSorted()])
        if (Math.max(...loads) <= Math.ceil(total / count))
          expect(again).to.deep.equal([...answer].map(([id, units]) => [id, units.toSorted()]))
      }),
    )
  })
})
