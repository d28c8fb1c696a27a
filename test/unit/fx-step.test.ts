import { expect } from 'chai'
import fc from 'fast-check'
import { type FxBatch, foldRates } from '#streams/fx/step.ts'

const DAY_MS = 86_400_000
const SLACK_MS = 600_000
const LATE = Date.UTC(2099, 0, 1)
const empty = (): FxBatch => ({ current: undefined, days: new Map() })
const table = (as_of: number, eur = '0.92') => ({ as_of, source: 's', rates: { USD: '1', EUR: eur } })

describe('exchange rates', () => {
  it('in force are the newest, whatever the order in which tables come', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(10 * DAY_MS), { minLength: 1, maxLength: 20 }), times => {
        const batch = empty()
        for (const time of times) foldRates(batch, table(time), LATE)
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
    foldRates(batch, table(5, '0.91'), 5)
    foldRates(batch, table(5, '0.93'), 5)
    expect(batch.current?.rates.EUR).to.equal('0.93')
  })

  it('used to stay for years after one table from the future: it is a dead letter, and the former ones stay', () => {
    const batch = empty()
    const now = 100 * DAY_MS
    foldRates(batch, table(now - 1), now)
    const before = structuredClone(batch)
    expect(foldRates(batch, table(now + SLACK_MS + 1, '0.5'), now)).to.include({
      kind: 'deadLetter',
      reason: 'from_the_future',
    })
    expect(batch).to.deep.equal(before)
    foldRates(batch, table(now, '0.93'), now)
    expect(batch.current?.rates.EUR).to.equal('0.93')
  })

  it('of a clock that is ten minutes ahead are in force', () => {
    const batch = empty()
    expect(foldRates(batch, table(DAY_MS + SLACK_MS), DAY_MS)).to.deep.equal({ kind: 'ok' })
    expect(batch.current?.as_of).to.equal(DAY_MS + SLACK_MS)
  })

  it('replace a table from the future that a former version has stored', () => {
    const batch = { ...empty(), current: { as_of: 900 * DAY_MS, rates: { USD: '1', EUR: '0.5' } } }
    foldRates(batch, table(DAY_MS, '0.93'), DAY_MS)
    expect(batch.current).to.deep.include({ as_of: DAY_MS })
  })

  for (const [name, rates] of Object.entries<Record<string, string>>({
    'a rate that is no number': { USD: '1', EUR: 'NaN' },
    'a rate of zero': { USD: '1', EUR: '0' },
    'a dollar that is not 1': { USD: '1.1', EUR: '0.9' },
    'no dollar': { EUR: '0.9' },
  })) {
    it(`with ${name} are a dead letter as a whole`, () => {
      const batch = empty()
      expect(foldRates(batch, { as_of: 1, source: 's', rates }, LATE)).to.include({
        kind: 'deadLetter',
        reason: 'unusable_rate',
      })
      expect(batch).to.deep.equal(empty())
    })
  }
})
