/** The log takes everything at {@link NOW} unless a claim says otherwise; a clock may run ten minutes ahead. */
import { expect } from 'chai'
import { DAY_MS } from '#schemas/values/instant.ts'
import {
  appended,
  at,
  changeTexts,
  failed,
  type InputRecord,
  play,
  pushed,
  refresh,
  verdictsOf,
} from '#test/fixtures/book-inputs.ts'

const NOW = Date.UTC(2026, 2, 3)
const SLACK_MS = 600_000
const AHEAD = NOW + SLACK_MS + 1
const YEAR_MS = 365 * DAY_MS

describe('book, observations from the future', () => {
  function leads(
    given: readonly InputRecord[],
    changes: readonly string[],
    { verdicts = [], unapplied = [] }: { verdicts?: readonly string[]; unapplied?: readonly string[] },
  ): void {
    const played = play(inLog(given))
    expect(changeTexts(played.changes)).to.deep.equal(changes)
    expect(verdictsOf(played)).to.deep.equal(verdicts)
    expect(played.unapplied.map(outcome => 'reason' in outcome && outcome.reason)).to.deep.equal(unapplied)
    expect(played.quarantined).to.deep.equal([])
  }

  it('used to freeze a provider for a year: a refresh from the future fails, and the next honest one counts', () =>
    leads([...refresh(NOW + YEAR_MS, [at(1, 100)]), ...refresh(NOW, [at(1, 90)])], ['added 1 90x1'], {
      verdicts: ['failed from_the_future', 'applied'],
    }))
  it('it withdraws nothing, and is no suspect that a second one like it confirms', () =>
    leads(
      [
        ...refresh(NOW - 1, [at(1, 100), at(2, 200), at(3, 300)]),
        ...refresh(AHEAD, []),
        ...refresh(AHEAD + 1, []),
        ...refresh(NOW, [at(1, 100), at(2, 200)]),
      ],
      ['added 1 100x1', 'added 2 200x1', 'added 3 300x1', 'removed 3'],
      { verdicts: ['applied', 'failed from_the_future', 'failed from_the_future', 'applied'] },
    ))
  it('a clock that is ten minutes ahead is believed', () =>
    leads(refresh(NOW + SLACK_MS, [at(1, 100)]), ['added 1 100x1'], { verdicts: ['applied'] }))
  it('the same refresh counts once the log takes it after its time', () =>
    leads([...refresh(AHEAD, [at(1, 100)]), ...appended(NOW + 1, refresh(AHEAD, [at(1, 100)]))], ['added 1 100x1'], {
      verdicts: ['failed from_the_future', 'applied'],
    }))
  it('used to freeze an item: a pushed observation from the future is a dead letter, and the next honest one counts', () =>
    leads(
      [pushed(AHEAD, 1, 100), pushed(AHEAD, 2, null), pushed(NOW, 1, 90), pushed(NOW, 2, 80)],
      ['added 1 90x1', 'added 2 80x1'],
      { unapplied: ['from_the_future', 'from_the_future'] },
    ))

  it('used to say that a provider was checked in a year: what fails in the future failed when the log took it', () => {
    const { judged } = play(inLog([...refresh(NOW + YEAR_MS, [at(1, 100)]), failed(NOW + YEAR_MS), failed(NOW - 5)]))
    expect(judged.map(({ observed_at }) => observed_at)).to.deep.equal([NOW, NOW, NOW - 5])
  })
})

const inLog = (records: readonly InputRecord[]): InputRecord[] =>
  records.map(record => ({ appendedAt: NOW, ...record }))
