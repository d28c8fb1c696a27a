/** The newest of a day wins: integration/verify-rates-and-health.test.ts. */
import { expect } from 'chai'
import { DAY_MS } from '#schemas/values/instant.ts'
import { foldRates } from '#streams/fx/fold.ts'
import type { DayRate } from '#streams/fx/table.ts'
import { recordOf } from '#test/fixtures/sink-records.ts'

const SLACK_MS = 600_000
const LATE = Date.UTC(2099, 0, 1)
const fold = (days: Map<string, DayRate>, as_of: number, rates: Record<string, string>, appendedAt = LATE) =>
  foldRates(days, { ...recordOf('FxRatesPublished', { as_of, source: 's', rates }, 0, 'fx'), appendedAt })
const euro = (EUR: string) => ({ USD: '1', EUR })

describe('exchange rates', () => {
  it('of the same time are replaced by the later table in the log', () => {
    const days = new Map<string, DayRate>()
    fold(days, 5, euro('0.91'))
    fold(days, 5, euro('0.93'))
    expect(days.get('0 EUR')?.rate).to.equal('0.93')
  })

  it('used to stay for years after one table from the future: it is a dead letter, and the former ones stay', () => {
    const days = new Map<string, DayRate>()
    const now = 100 * DAY_MS
    fold(days, now - 1, euro('0.92'), now)
    const before = structuredClone(days)
    expect(fold(days, now + SLACK_MS + 1, euro('0.5'), now)).to.include({
      kind: 'deadLetter',
      reason: 'from_the_future',
    })
    expect(days).to.deep.equal(before)
    expect(fold(days, now + SLACK_MS, euro('0.93'), now)).to.deep.equal({ kind: 'ok' })
    expect(days.get('100 EUR')?.rate).to.equal('0.93')
  })

  it('of a currency that a later table of the day lacks stay', () => {
    const days = new Map<string, DayRate>()
    fold(days, 5, { USD: '1', EUR: '0.9', CNY: '7' })
    fold(days, 6, { USD: '1', EUR: '0.91' })
    expect([...days.values()].map(({ currency, rate }) => `${currency} ${rate}`)).to.have.members([
      ...['USD 1', 'EUR 0.91', 'CNY 7'],
    ])
  })

  for (const [name, rates] of Object.entries<Record<string, string>>({
    'a rate that is no number': euro('NaN'),
    'a rate of zero': euro('0'),
    'a dollar that is not 1': { USD: '1.1', EUR: '0.9' },
    'no dollar': { EUR: '0.9' },
  })) {
    it(`with ${name} are a dead letter as a whole`, () => {
      const days = new Map<string, DayRate>()
      expect(fold(days, 1, rates)).to.include({ kind: 'deadLetter', reason: 'unusable_rate' })
      expect(days.size).to.equal(0)
    })
  }
})
