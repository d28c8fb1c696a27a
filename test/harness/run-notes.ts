/**
 * Lines that the test files of one run leave for its end, from whichever worker they come.
 *
 * Writes files into the folder that MARKETLOG_TEST_NOTES names, one line at a time. Invariant: the folder belongs to one run, is
 * named before the first file is loaded, and goes with the process that made it.
 */
import { appendFileSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** What is noted. */
export type NoteKind = 'absences' | 'figures'

/** Names the folder to this process and the workers that it will start, unless one of them has been given it. */
export function openRunNotes(): void {
  if (process.env.MARKETLOG_TEST_NOTES !== undefined) return
  const folder = mkdtempSync(join(tmpdir(), 'marketlog-notes-'))
  process.env.MARKETLOG_TEST_NOTES = folder
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
}

/** Adds a line; where no run will show it at its end, as in a bench, the console does so at once. */
export function addNote(kind: NoteKind, line: string, { MARKETLOG_TEST_NOTES: folder }: NodeJS.ProcessEnv): void {
  if (folder === undefined) console.log(`      (${line})`)
  else appendFileSync(join(folder, kind), `${line}\n`)
}

/** The lines of this run so far, in the order in which they came. */
export function readNotes(kind: NoteKind, { MARKETLOG_TEST_NOTES: folder }: NodeJS.ProcessEnv): string[] {
  const file = join(folder ?? '', kind)
  return folder !== undefined && existsSync(file) ? readFileSync(file, 'utf8').split('\n').filter(Boolean) : []
}
