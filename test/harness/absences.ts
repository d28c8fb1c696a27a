/**
 * What a check needs and this machine does not have: an error in continuous integration, a line at the end of a run elsewhere.
 *
 * {@link ALLOWED_ABSENCES} is the whole list of what continuous integration may go without. Invariant: a check that is left
 * out is printed at the end of its run.
 */
import { addNote, readNotes } from './run-notes.ts'

/** What may be absent in continuous integration, and why. */
export const ALLOWED_ABSENCES: Readonly<Record<string, string>> = {
  'all recorded refreshes': 'not in the repository for their size; test/fixtures/refreshes has some of them',
  'the whole price history': 'not in the repository for its size; test/fixtures/history-prices.csv.gz has sixty items',
  'the commit to upgrade from': 'a shallow clone has no history; `make upgrade` names a commit that is there',
  'the specification': 'not in the repository; its tables are, and the check is that they have not drifted apart',
}

/** Whether this run is one of continuous integration. */
export const isContinuousIntegration = ({ CI }: NodeJS.ProcessEnv): boolean => ![undefined, '', 'false'].includes(CI)

/** Notes that something is absent, and what is not checked therefore; throws where it must not be. */
export function noteAbsence(name: string, consequence: string, environment: NodeJS.ProcessEnv = process.env): void {
  const reason = ALLOWED_ABSENCES[name]
  if (reason === undefined && isContinuousIntegration(environment))
    throw new Error(`${name} is absent, which continuous integration does not allow: ${consequence}`)
  addNote('absences', `${name} is absent: ${consequence}${reason === undefined ? '' : ` (${reason})`}`, environment)
}

/** What this run has noted so far, each line once. */
export const notedAbsences = (environment: NodeJS.ProcessEnv = process.env): string[] =>
  [...new Set(readNotes('absences', environment))].sort()
