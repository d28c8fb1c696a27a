import { expect } from 'chai'
import fc from 'fast-check'
import type { EnabledRule } from '#streams/alert-triggers/rule-index.ts'
import { openRuleQueue } from '#streams/alert-triggers/rule-queue.ts'
import { eventually } from '#test/harness/eventually.ts'

/** The largest difference of two clocks. */
const D = 20

/** A change or a rule as it truly came, and the stamp of the broker that took it. */
interface Came {
  at: number
  stamp: number
}

const ruleOf = (id: number): EnabledRule => ({
  id: String(id),
  itemId: 1,
  kind: 'price_below',
  threshold: 0n,
  currency: 'USD',
  version: 1,
  changedAt: 0,
  isLive: false,
})

/**
 * By rule: how many changes had been applied when it was evaluated. A live reader has a rule when it came; one that reads the log again
 * has all of them before the first change.
 */
async function evaluations(
  changes: readonly Came[],
  rules: readonly Came[],
  isLive: boolean,
): Promise<Map<string, number[]>> {
  const seen = new Map<string, number[]>()
  let position = 0
  const queue = openRuleQueue({
    partition: 0,
    changes: { end: async () => changes.length, past: async (_, reached) => reached },
    position: () => position,
    consider: ({ id }) => void seen.set(id, [...(seen.get(id) ?? []), position]),
    onSettled: () => undefined,
    fail: error => expect.fail(error.message),
  })
  const left = rules.map((rule, id) => ({ ...rule, id }))
  const addUpTo = (time: number): void => {
    while (left[0] && left[0].at <= time) {
      const [{ id, stamp } = { id: 0, stamp: 0 }] = left.splice(0, 1)
      queue.add(ruleOf(id), stamp)
    }
  }
  if (!isLive) addUpTo(Number.POSITIVE_INFINITY)
  queue.begin()
  for (const { at, stamp } of changes) {
    // Before a change is looked at, every rule that the log took before it has come.
    if (isLive) addUpTo(at)
    queue.release(stamp)
    position += 1
  }
  addUpTo(Number.POSITIVE_INFINITY)
  await eventually(() => queue.size() === 0, 'the queue to settle')
  queue.close()
  return seen
}

/** Things in the order in which they truly came; each stamp is up to `d` ahead. */
const coming = (most: number): fc.Arbitrary<Came[]> =>
  fc
    .array(fc.record({ at: fc.integer({ min: 0, max: 300 }), ahead: fc.integer({ min: 0, max: D }) }), {
      maxLength: most,
    })
    .map(all => all.sort((a, b) => a.at - b.at).map(({ at, ahead }) => ({ at, stamp: at + ahead })))

describe('the queue of alert rules', () => {
  it('asks again when the leader of the changes moves, and fails by what does not pass', async () => {
    const failures: Error[] = []
    const seen: string[] = []
    const answers: unknown[] = [Object.assign(new Error('it leads no more'), { retriable: true }), 2]
    const open = () =>
      openRuleQueue({
        partition: 0,
        changes: {
          end: async () => 2,
          async past() {
            const answer = answers.shift()
            if (answer instanceof Error) throw answer
            return Number(answer)
          },
        },
        position: () => 1,
        consider: ({ id }) => void seen.push(id),
        onSettled: () => undefined,
        fail: error => failures.push(error),
      })
    const queue = open()
    queue.begin()
    queue.add(ruleOf(7), 0)
    await eventually(() => queue.size() === 0, 'the queue to settle')
    expect([seen, failures]).to.deep.equal([['7'], []])
    answers.push(new Error('the reader is closed'))
    const failing = open()
    failing.begin()
    failing.add(ruleOf(8), 0)
    await eventually(() => failures.length > 0, 'the queue to fail')
    failing.close()
    expect(failures.map(({ message }) => message)).to.deep.equal(['the reader is closed'])
  })
})

describe('alert rules between changes, by clocks that differ', () => {
  for (const isLive of [true, false]) {
    const who = isLive ? 'a live reader' : 'a reader of the log'
    it(`${who} evaluates a rule once: after what came over d before it, before what came d after it`, () =>
      fc.assert(
        fc.asyncProperty(coming(25), coming(8), async (changes, rules) => {
          const seen = await evaluations(changes, rules, isLive)
          for (const [id, { at }] of rules.entries()) {
            const [position = -1, ...more] = seen.get(String(id)) ?? []
            expect(more).to.deep.equal([])
            expect(position).to.be.at.least(changes.filter(change => change.at < at - D).length)
            expect(position).to.be.at.most(changes.filter(change => change.at < at + D).length)
          }
        }),
        { numRuns: 300 },
      ))
  }

  it('a second reading of the log evaluates each rule after the same number of changes', () =>
    fc.assert(
      fc.asyncProperty(coming(25), coming(8), async (changes, rules) => {
        expect(await evaluations(changes, rules, false)).to.deep.equal(await evaluations(changes, rules, false))
      }),
      { numRuns: 100 },
    ))
})
