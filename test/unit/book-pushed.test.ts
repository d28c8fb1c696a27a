import { expect } from 'chai'
import { at, changeTexts, type InputRecord, play, pushed, refresh } from '#test/fixtures/book-inputs.ts'

describe('book step, pushed observations', () => {
  function leads(given: readonly InputRecord[], changes: readonly string[], unapplied: readonly string[] = []): void {
    const played = play(given)
    expect(changeTexts(played.changes)).to.deep.equal(changes)
    expect(
      played.unapplied.map(outcome => ('reason' in outcome ? `${outcome.kind} ${outcome.reason}` : outcome.kind)),
    ).to.deep.equal(unapplied)
  }

  it('an observation counts at once, without a refresh', () =>
    leads([pushed(1, 1, 100, { quantity: 2 })], ['added 1 100x2']))
  it('the same again changes nothing', () => leads([pushed(1, 1, 100), pushed(2, 1, 100)], ['added 1 100x1']))
  it('a newer price replaces an older one', () =>
    leads([pushed(1, 1, 100), pushed(2, 1, 90)], ['added 1 100x1', 'updated 1 90x1']))
  it('a null price withdraws', () => leads([pushed(1, 1, 100), pushed(2, 1, null)], ['added 1 100x1', 'removed 1']))
  it('withdrawing what is not listed changes nothing', () => leads([pushed(1, 1, null)], []))
  it('an observation older than the row is stale', () =>
    leads([pushed(5, 1, 100), pushed(4, 1, 90)], ['added 1 100x1'], ['skip stale']))
  it('an observation older than the withdrawal does not bring the row back', () =>
    leads([pushed(5, 1, 100), pushed(7, 1, null), pushed(6, 1, 90)], ['added 1 100x1', 'removed 1'], ['skip stale']))
  it('items age on their own', () => leads([pushed(5, 1, 100), pushed(4, 2, 90)], ['added 1 100x1', 'added 2 90x1']))
  it('an observation without a usable rate is a dead letter', () =>
    leads(
      [pushed(1, 1, 100, { rate: null }), pushed(1, 1, 100, { rate: 'x' })],
      [],
      ['deadLetter unusable_rate', 'deadLetter unusable_rate'],
    ))
  it('an observation in another currency than the rest of the book is a dead letter', () =>
    leads(
      [pushed(1, 1, 100), pushed(2, 2, 100, { currency: 'EUR', rate: '0.9' })],
      ['added 1 100x1'],
      ['deadLetter currency_mismatch'],
    ))
  it('once nothing is listed any more the currency may change', () =>
    leads(
      [pushed(1, 1, 100), pushed(2, 1, null), pushed(3, 2, 100, { currency: 'EUR', rate: '0.8' })],
      ['added 1 100x1', 'removed 1', 'added 2 100x1'],
    ))
  it('an unknown name is unresolved, a negative price a dead letter', () =>
    leads([pushed(1, 'unknown', 100), pushed(1, 1, -5)], [], ['unresolved', 'deadLetter price_out_of_range']))
  it('used to stop its partition for ever: an amount beyond 2^53 micro-dollars is a dead letter', () =>
    leads(
      [pushed(1, 1, 10 ** 12, { currency: 'XAU', rate: '0.0001' }), pushed(2, 1, 100)],
      ['added 1 100x1'],
      ['deadLetter amount_too_large'],
    ))
  it('used to bring back what a newer refresh had withdrawn: an older observation is stale', () =>
    leads(
      [...refresh(5, [at(1, 100)]), pushed(4, 1, 90), pushed(4, 2, 90), pushed(6, 1, 80)],
      ['added 1 100x1', 'updated 1 80x1'],
      ['skip stale', 'skip stale'],
    ))
})
