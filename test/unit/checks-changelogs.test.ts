/**
 * The form of a changelog: a rollback must be able to read what the version after it wrote.
 */
import { expect } from 'chai'
import { type ChangelogLock, checkChangelogs, lockChangelogs } from '#infra/checks/changelogs.ts'
import { changelogFault } from '#schemas/events/book-state.ts'

const TOPIC = 'market.book'
const form = (format: number, oldestReader: number, ...events: string[]) => ({ format, oldestReader, events })
const first = form(1, 1, 'RowStored')
const lock: ChangelogLock = { [TOPIC]: [first] }
const rulesOf = (present: typeof first, released = lock) =>
  checkChangelogs({ [TOPIC]: present }, released).map(({ rule }) => rule)

describe('the changelog check', () => {
  it('passes a form that is released', () => {
    expect(rulesOf(first)).to.deep.equal([])
  })

  it('refuses a new event under the old format, which a rollback would meet unprepared', () => {
    expect(rulesOf(form(1, 1, 'LevelStored', 'RowStored'))).to.deep.equal(['changelog-format'])
  })

  it('refuses a format that the release before cannot read', () => {
    expect(rulesOf(form(2, 2, 'LevelStored', 'RowStored'))).to.deep.equal(['changelog-reader'])
  })

  it('refuses to forget an event that the topic may still hold', () => {
    expect(rulesOf(form(2, 1, 'LevelStored'))).to.deep.equal(['changelog-event-vanished'])
  })

  it('releases a new event that the release before passes over, and one release later its necessity', () => {
    const second = form(2, 1, 'LevelStored', 'RowStored')
    expect(rulesOf(second)).to.deep.equal(['changelog-unlocked'])
    const locked = lockChangelogs({ [TOPIC]: second }, lock)
    expect(rulesOf(second, locked)).to.deep.equal([])
    expect(rulesOf(form(3, 2, 'LevelStored', 'RowStored'), locked)).to.deep.equal(['changelog-unlocked'])
  })

  it('lets no broken form into the lock', () => {
    expect(() => lockChangelogs({ [TOPIC]: form(2, 2, 'RowStored') }, lock)).to.throw(/one release later/)
  })
})

describe('a changelog of another version', () => {
  const mark = (format: number | null, oldest_reader: number | null) => ({ format, oldest_reader })
  const known = { format: 2, oldestReader: 1 }

  it('is read where it names no version, or one that this version may read', () => {
    for (const one of [mark(null, null), mark(1, 1), mark(2, 2), mark(9, 2)])
      expect(changelogFault(one, known)).to.equal(undefined)
  })

  it('used to end the book for good: now it says which version it needs and that nothing is lost', () => {
    expect(changelogFault(mark(3, 3), known)).to.match(
      /written in version 3 .* must know version 3; this process knows 2\. Start the newer version again/,
    )
  })
})
