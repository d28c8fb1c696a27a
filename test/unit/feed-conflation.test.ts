import { expect } from 'chai'
import fc from 'fast-check'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { openConflation } from '#services/feed/conflation.ts'
import { changed } from '#test/harness/published-records.ts'

/** Applies changes as a client does that trusts every event. */
function apply(state: Map<string, number>, changes: readonly BookChanged[]): void {
  for (const { provider, item_id, change, quantity } of changes) {
    const key = `${provider} ${item_id}`
    expect(state.has(key), `${change} of ${key}`).to.equal(change !== 'added')
    if (change === 'removed') state.delete(key)
    else state.set(key, quantity)
  }
}

describe('conflation', () => {
  it('leads to the same state, in steps that fit it, whenever it is emptied', () => {
    const step = fc.record({
      provider: fc.constantFrom('p', 'q'),
      item: fc.nat(3),
      goes: fc.boolean(),
      take: fc.nat(4),
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), steps => {
        const [whole, conflated] = [new Map<string, number>(), new Map<string, number>()]
        const waiting = openConflation(1_000)
        for (const [at, { provider, item, goes, take }] of steps.entries()) {
          const isListed = whole.has(`${provider} ${item}`)
          const change = !isListed ? 'added' : goes ? 'removed' : 'updated'
          const one = changed({ provider, item_id: item, change, quantity: at + 1, seen_at: at })
          apply(whole, [one])
          waiting.add([one])
          expect(waiting.size()).to.be.at.most(8)
          if (take === 0) apply(conflated, waiting.take(3))
        }
        apply(conflated, waiting.take(Number.POSITIVE_INFINITY))
        expect(conflated).to.deep.equal(whole)
      }),
      { numRuns: 500 },
    )
  })

  it('says when it has no more room', () => {
    const waiting = openConflation(2)
    const add = (item_id: number) => waiting.add([changed({ item_id })])
    expect([add(1), add(1), add(2), add(3)]).to.deep.equal([true, true, true, false])
  })
})
