/**
 * Exchange rates: the newest table is in force, each day keeps its newest, and a broken table changes nothing.
 */
import { expect } from 'chai'
import fc from 'fast-check'
import { type FxBatch, foldRates } from '#streams/fx/step.ts'

const DAY_MS = 86_400_000
const empty = (): FxBatch => ({ current: undefined, days: new Map() })
const table = (as_of: number, eur = '0.92') => ({ as_of, source: 's', rates: { USD: '1', EUR: eur } })

describe('exchange rates', () => {
  it('in force are the newest, whatever the order in which tables come', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(10 * DAY_MS), { minLength: 1, maxLength: 20 }), times => {
        const batch = empty()
        for (const time of times) foldRates(batch, table(time))
        expect(batch.current?.as_of).to.equal(Math.max(...times))
        for (const [day, { as_of }] of batch.days) {
          expect(as_of).to.equal(Math.max(...times.filter(time => Math.floor(time / DAY_MS) === day)))
        }
        expect(batch.days.size).to.equal(new Set(times.map(time => Math.floor(time / DAY_MS))).size)
      }),
    )
  })

  it('of the same time are replaced by the later table in the log', () => {
    const batch = empty()
    foldRates(batch, table(5, '0.91'))
    foldRates(batch, table(5, '0.93'))
    expect(batch.current?.rates.EUR).to.equal('0.93')
  })

  for (const [name, rates] of Object.entries<Record<string, string>>({
    'a rate that is no number': { USD: '1', EUR: 'NaN' },
    'a rate of zero': { USD: '1', EUR: '0' },
    'a dollar that is not 1': { USD: '1.1', EUR: '0.9' },
    'no dollar': { EUR: '0.9' },
  })) {
    it(`with ${name} are set aside whole`, () => {
      const batch = empty()
      expect(foldRates(batch, { as_of: 1, source: 's', rates })).to.include({
        kind: 'deadLetter',
        reason: 'unusable_rate',
      })
      expect(batch).to.deep.equal(empty())
    })
  }
})
