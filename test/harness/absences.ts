/**
 * What a check needs and this machine does not have: an error in continuous integration, a line at the end of a run elsewhere.
 */
import { addNote, readNotes } from './run-notes.ts'

/** Whether this run is one of continuous integration. */
export const isContinuousIntegration = ({ CI }: NodeJS.ProcessEnv): boolean => ![undefined, '', 'false'].includes(CI)

/** Notes that something is absent, and what is not checked therefore; throws in continuous integration. */
export function noteAbsence(name: string, consequence: string, environment: NodeJS.ProcessEnv = process.env): void {
  if (isContinuousIntegration(environment))
    throw new Error(`${name} is absent, which continuous integration does not allow: ${consequence}`)
  addNote('absences', `${name} is absent: ${consequence}`, environment)
}

/** What this run has noted so far, each line once. */
export const notedAbsences = (environment: NodeJS.ProcessEnv = process.env): string[] =>
  [...new Set(readNotes('absences', environment))].sort()
