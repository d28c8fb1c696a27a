import { expect } from 'chai'
import fc from 'fast-check'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { conflatingPolicy, openConflation } from '#services/feed/delivery-policy.ts'
import type { EventStream } from '#services/feed/event-stream.ts'
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

const MUCH = 2 ** 20

/** A stream whose frames are changes in JSON, and whose unread bytes the test says. */
function openTestStream(onChanges: (changes: readonly BookChanged[]) => void) {
  let drain = (): void => undefined
  const stream = {
    unread: 0,
    waiting: () => stream.unread,
    send(frame: Buffer) {
      onChanges(JSON.parse(frame.toString()))
      return 'queued'
    },
    onDrain(call: () => void) {
      drain = call
    },
    drained() {
      stream.unread = 0
      drain()
    },
  }
  return stream
}

const frameOf = (changes: readonly BookChanged[]): Buffer => Buffer.from(JSON.stringify(changes))

/** Changes of a few rows, one at a time, each followed by what its client reads. */
function* changesOf<T>(steps: readonly { provider: string; item: number; goes: boolean; reads: T }[]) {
  const listed = new Set<string>()
  for (const [at, { provider, item, goes, reads }] of steps.entries()) {
    const key = `${provider} ${item}`
    const change = !listed.has(key) ? ('added' as const) : goes ? ('removed' as const) : ('updated' as const)
    if (change === 'removed') listed.delete(key)
    else listed.add(key)
    yield { one: changed({ provider, item_id: item, change, quantity: at + 1, seen_at: at }), reads }
  }
}

const stepsWith = <T>(reads: fc.Arbitrary<T>) =>
  fc.array(fc.record({ provider: fc.constantFrom('p', 'q'), item: fc.nat(3), goes: fc.boolean(), reads }), {
    maxLength: 60,
  })

describe('conflation', () => {
  it('leads to the same state, in steps that fit it, whenever it is emptied', () => {
    fc.assert(
      fc.property(stepsWith(fc.nat(4)), steps => {
        const [whole, conflated] = [new Map<string, number>(), new Map<string, number>()]
        const waiting = openConflation(1_000)
        for (const { one, reads } of changesOf(steps)) {
          apply(whole, [one])
          waiting.add([one])
          expect(waiting.size()).to.be.at.most(8)
          if (reads === 0) apply(conflated, waiting.pop(3))
        }
        apply(conflated, waiting.pop(Number.POSITIVE_INFINITY))
        expect(conflated).to.deep.equal(whole)
      }),
      { numRuns: 500 },
    )
  })

  it('sends no live event past what waits, however slowly its client reads', () => {
    fc.assert(
      fc.property(stepsWith(fc.constantFrom('nothing', 'some', 'all')), steps => {
        const [whole, conflated] = [new Map<string, number>(), new Map<string, number>()]
        const stream = openTestStream(changes => apply(conflated, changes))
        const policy = conflatingPolicy(stream as unknown as EventStream, {
          capBytes: MUCH,
          framesOf: changes => [frameOf(changes)],
        })
        for (const { one, reads } of changesOf(steps)) {
          apply(whole, [one])
          policy({ bytes: frameOf([one]), identified: () => expect.fail('it has no id'), changes: () => [one] })
          if (reads === 'all') stream.drained()
          else stream.unread = reads === 'some' ? 1 : MUCH
        }
        stream.drained()
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
