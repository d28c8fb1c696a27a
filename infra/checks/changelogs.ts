/**
 * Holds the form of the book's changelog against those that were ever released (changelogs.lock.json).
 *
 * Invariant: what a version writes, the version released before it can read, so that a rollback goes on with the same changelog.
 * A new kind of event raises `format`; `oldestReader` may only name a format that is released already.
 */
import { BOOK_CHANGELOG, type ChangelogVersion } from '#schemas/events/book-state.ts'
import { topics } from '#schemas/topics.ts'
import type { Finding } from './finding.ts'

/** A form of a changelog: its versions, and the events that it may hold. */
interface ChangelogForm extends ChangelogVersion {
  events: string[]
}

/** Topic → its released forms, oldest first. */
export type ChangelogLock = Record<string, ChangelogForm[]>

const FILE = 'infra/checks/changelogs.lock.json'

/** The form of each changelog in the code. */
export const changelogs: Readonly<Record<string, ChangelogForm>> = {
  [topics.book.name]: { ...BOOK_CHANGELOG, events: topics.book.events.map(({ name }) => name).sort() },
}

/** Every changelog whose form the release before could not read, or is not locked. */
export function checkChangelogs(present: Readonly<Record<string, ChangelogForm>>, lock: ChangelogLock): Finding[] {
  return Object.entries(present).flatMap(([topic, form]) => checkForm(topic, form, lock[topic] ?? []))
}

/** The lock with the present forms added; throws when one of them may not be released. */
export function lockChangelogs(present: Readonly<Record<string, ChangelogForm>>, lock: ChangelogLock): ChangelogLock {
  const broken = checkChangelogs(present, lock).filter(({ rule }) => rule !== 'changelog-unlocked')
  if (broken[0]) throw new Error(broken.map(({ detail }) => detail).join('\n'))
  const entries = Object.entries(present).map(([topic, form]): [string, ChangelogForm[]] => {
    const released = lock[topic] ?? []
    return [topic, isSame(released.at(-1), form) ? released : [...released, form]]
  })
  return { ...lock, ...Object.fromEntries(entries) }
}

function checkForm(topic: string, form: ChangelogForm, released: readonly ChangelogForm[]): Finding[] {
  const last = released.at(-1)
  if (isSame(last, form)) return []
  if (last && form.format <= last.format)
    return [finding('changelog-format', `the form of ${topic} changed: raise its format above ${last.format}`)]
  if (last && form.oldestReader > last.format) {
    const detail = `${topic}: the release before reads format ${last.format}, so oldestReader may be ${last.format} at most; raise it one release later`
    return [finding('changelog-reader', detail)]
  }
  const gone = last?.events.filter(event => !form.events.includes(event)) ?? []
  if (gone.length > 0)
    return [finding('changelog-event-vanished', `${topic} may still hold ${gone.join(', ')}, which must stay readable`)]
  return [
    finding('changelog-unlocked', `format ${form.format} of ${topic} is not locked: run \`npm run schemas:lock\``),
  ]
}

const isSame = (one: ChangelogForm | undefined, other: ChangelogForm): boolean =>
  one?.format === other.format && one.oldestReader === other.oldestReader && `${one.events}` === `${other.events}`

const finding = (rule: string, detail: string): Finding => ({ file: FILE, rule, detail })
