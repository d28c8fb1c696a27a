/**
 * Providers that push single observations: applied at once, judged one by one.
 */
import { expect } from 'chai'
import { at, changeTexts, type InputRecord, play, pushed, refresh } from '#test/fixtures/book-inputs.ts'

const claims: { name: string; given: InputRecord[]; then: string[]; unapplied?: string[] }[] = [
  {
    name: 'an observation counts at once, without a refresh',
    given: [pushed(1, 1, 100, { quantity: 2 })],
    then: ['added 1 100x2'],
  },
  {
    name: 'the same again changes nothing',
    given: [pushed(1, 1, 100), pushed(2, 1, 100)],
    then: ['added 1 100x1'],
  },
  {
    name: 'a newer price replaces an older one',
    given: [pushed(1, 1, 100), pushed(2, 1, 90)],
    then: ['added 1 100x1', 'updated 1 90x1'],
  },
  {
    name: 'a null price withdraws',
    given: [pushed(1, 1, 100), pushed(2, 1, null)],
    then: ['added 1 100x1', 'removed 1'],
  },
  {
    name: 'withdrawing what is not listed changes nothing',
    given: [pushed(1, 1, null)],
    then: [],
  },
  {
    name: 'an observation older than the row is stale',
    given: [pushed(5, 1, 100), pushed(4, 1, 90)],
    then: ['added 1 100x1'],
    unapplied: ['skip stale'],
  },
  {
    name: 'an observation older than the withdrawal does not bring the row back',
    given: [pushed(5, 1, 100), pushed(7, 1, null), pushed(6, 1, 90)],
    then: ['added 1 100x1', 'removed 1'],
    unapplied: ['skip stale'],
  },
  {
    name: 'items age on their own',
    given: [pushed(5, 1, 100), pushed(4, 2, 90)],
    then: ['added 1 100x1', 'added 2 90x1'],
  },
  {
    name: 'an observation without a usable rate is a dead letter',
    given: [pushed(1, 1, 100, { rate: null }), pushed(1, 1, 100, { rate: 'x' })],
    then: [],
    unapplied: ['deadLetter unusable_rate', 'deadLetter unusable_rate'],
  },
  {
    name: 'an observation in another currency than the rest of the book is a dead letter',
    given: [pushed(1, 1, 100), pushed(2, 2, 100, { currency: 'EUR', rate: '0.9' })],
    then: ['added 1 100x1'],
    unapplied: ['deadLetter currency_mismatch'],
  },
  {
    name: 'once nothing is listed any more the currency may change',
    given: [pushed(1, 1, 100), pushed(2, 1, null), pushed(3, 2, 100, { currency: 'EUR', rate: '0.8' })],
    then: ['added 1 100x1', 'removed 1', 'added 2 100x1'],
  },
  {
    name: 'an unknown name is unresolved, a negative price a dead letter',
    given: [pushed(1, 'unknown', 100), pushed(1, 1, -5)],
    then: [],
    unapplied: ['unresolved', 'deadLetter price_out_of_range'],
  },
  {
    name: 'used to stop its partition for ever: an amount beyond 2^53 micro-dollars is a dead letter',
    given: [pushed(1, 1, 10 ** 12, { currency: 'XAU', rate: '0.0001' }), pushed(2, 1, 100)],
    then: ['added 1 100x1'],
    unapplied: ['deadLetter amount_too_large'],
  },
  {
    name: 'used to bring back what a newer refresh had withdrawn: an older observation is stale',
    given: [...refresh(5, [at(1, 100)]), pushed(4, 1, 90), pushed(4, 2, 90), pushed(6, 1, 80)],
    then: ['added 1 100x1', 'updated 1 80x1'],
    unapplied: ['skip stale', 'skip stale'],
  },
]

describe('book step, pushed observations', () => {
  for (const { name, given, then, unapplied = [] } of claims) {
    it(name, () => {
      const played = play(given)
      expect(changeTexts(played.changes)).to.deep.equal(then)
      expect(
        played.unapplied.map(outcome => ('reason' in outcome ? `${outcome.kind} ${outcome.reason}` : outcome.kind)),
      ).to.deep.equal(unapplied)
    })
  }
})
