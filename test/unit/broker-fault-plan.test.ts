/**
 * What is promised of a plan of brokers' faults: repeatable, and every kind in each round.
 */
import { expect } from 'chai'
import { FAULT_KINDS, planFaults } from '#test/fault/broker-fault-plan.ts'
import { randomOf } from '#test/harness/seeded-random.ts'

const ROUNDS = 20

describe('a plan of broker faults', () => {
  const plan = (seed: number) =>
    planFaults(randomOf(seed), { kinds: FAULT_KINDS, brokers: 3, pauseMs: [10, 20], lastsMs: [30, 40] })
      .take(ROUNDS * FAULT_KINDS.length)
      .toArray()

  it('is the same for the same seed, and another for another', () => {
    expect(plan(7)).to.deep.equal(plan(7))
    expect(plan(7)).not.to.deep.equal(plan(8))
  })

  it('has every kind once before any comes again', () => {
    const kinds = plan(1).map(({ kind }) => kind)
    for (let round = 0; round < ROUNDS; round++) {
      const own = kinds.slice(round * FAULT_KINDS.length, (round + 1) * FAULT_KINDS.length)
      expect(own).to.have.members([...FAULT_KINDS])
    }
  })

  it('reaches every broker, moves leaders to another one, and keeps to its times', () => {
    const faults = plan(2)
    expect(new Set(faults.map(({ broker }) => broker))).to.deep.equal(new Set([1, 2, 3]))
    expect(new Set(faults.map(({ step }) => step))).to.deep.equal(new Set([1, 2]))
    for (const { pauseMs, lastsMs } of faults) {
      expect(pauseMs).to.be.within(10, 20)
      expect(lastsMs).to.be.within(30, 40)
    }
  })
})
