import { expect } from 'chai'
import fc from 'fast-check'
import {
  expectBalanced,
  expectFigure,
  isBalanced,
  type LedgerEntry,
  ledgerTable,
  openLedger,
} from '#test/harness/ledger.ts'
import { randomOf } from '#test/harness/seeded-random.ts'

const entries = (key: string, ...whats: string[]): LedgerEntry[] => whats.map(what => ({ key, what }))

describe('ledger', () => {
  const cases = [
    { name: 'agreement', wanted: ['a', 'b', 'a'], came: ['a', 'b', 'a'], faults: [0, 0, 0, 0] },
    { name: 'a lost entry', wanted: ['a', 'b', 'c'], came: ['a', 'c'], faults: [1, 0, 0, 0] },
    { name: 'a lost repeat', wanted: ['a', 'b', 'a'], came: ['a', 'b'], faults: [1, 0, 0, 0] },
    { name: 'a doubled entry', wanted: ['a', 'b'], came: ['a', 'b', 'a'], faults: [0, 1, 0, 0] },
    { name: 'a phantom', wanted: ['a'], came: ['a', 'x'], faults: [0, 0, 1, 0] },
    { name: 'a phantom key', wanted: [], came: ['x'], faults: [0, 0, 1, 0] },
    { name: 'two that changed places', wanted: ['a', 'b', 'c'], came: ['b', 'a', 'c'], faults: [0, 0, 0, 1] },
    { name: 'one that came last', wanted: ['a', 'b', 'c', 'd'], came: ['b', 'c', 'd', 'a'], faults: [0, 0, 0, 1] },
  ]
  for (const { name, wanted, came, faults } of cases)
    it(`counts ${name}`, () => {
      const { lost, doubled, phantom, outOfOrder } = openLedger(entries('k', ...wanted), entries('k', ...came), 1)
      expect([lost, doubled, phantom, outOfOrder]).to.deep.equal(faults)
    })

  it('does not care how the histories of different keys interleave', () => {
    const wanted = [...entries('a', '1', '2'), ...entries('b', '1', '2')]
    const came = [...entries('b', '1'), ...entries('a', '1'), ...entries('b', '2'), ...entries('a', '2')]
    expect(isBalanced(openLedger(wanted, came, 4))).to.equal(true)
  })

  it('accounts for every entry of a random damage', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ maxLength: 2 })), fc.integer({ min: 0 }), (whats, seed) => {
        const random = randomOf(seed)
        const came = random.shuffle(whats).filter(() => random.chance(0.8))
        const ledger = openLedger(entries('k', ...whats), entries('k', ...came), 1)
        expect(ledger.expected - ledger.lost).to.equal(ledger.actual - ledger.doubled - ledger.phantom)
        expect(ledger.lost).to.equal(whats.length - came.length)
      }),
    )
  })

  it('prints one table and throws when something is missing', () => {
    const ledger = openLedger(entries('k', 'a', 'b'), entries('k', 'a'), 2)
    expect(ledgerTable({ topic: ledger })).to.match(/least +keys +expected +actual +lost[\s\S]*topic +2 +1 +2 +1 +1 +0/)
    expect(() => expectBalanced({ topic: ledger }, () => {})).to.throw('topic differ from the reference')
  })

  it('does not balance with fewer entries than its scenario promises, least of all with none', () => {
    const balances = (count: number, least: number): boolean => {
      const same = entries('k', ...Array.from({ length: count }, (_, at) => String(at)))
      return isBalanced(openLedger(same, same, least))
    }
    expect([balances(0, 1), balances(2, 3), balances(3, 3), balances(4, 3)]).to.deep.equal([false, false, true, true])
    expect(() => balances(0, 0)).to.throw('proves nothing')
    expect(() => balances(0, Number.NaN)).to.throw('proves nothing')
    const empty = openLedger([], [], 1)
    expect(() => expectBalanced({ topic: empty }, () => {})).to.throw('hold less than promised')
    expect(() => expectBalanced({}, () => {})).to.throw('nothing is compared with the reference')
  })
})

describe('a figure', () => {
  it('fails beyond its limit, and where there is none', () => {
    const judge = (value: number, limit: { atMost: number } | { atLeast: number }) => () =>
      expectFigure({ test: 'outage', what: 'catch-up', value, unit: 's', limit })
    expect(judge(5, { atMost: 5 })).not.to.throw()
    expect(judge(5, { atLeast: 5 })).not.to.throw()
    expect(judge(5.1, { atMost: 5 })).to.throw('outage: catch-up 5.10 s (at most 5)')
    expect(judge(4.9, { atLeast: 5 })).to.throw('outage: catch-up 4.90 s (at least 5)')
    expect(judge(Number.NaN, { atMost: 5 })).to.throw('NaN')
  })
})
