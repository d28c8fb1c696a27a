/** Whether this run is one of continuous integration. */
export const isContinuousIntegration = ({ CI }: NodeJS.ProcessEnv): boolean => ![undefined, '', 'false'].includes(CI)

/** Prints that a machine lacks something, and what is not checked therefore; throws in continuous integration. */
export function noteAbsence(name: string, consequence: string, environment: NodeJS.ProcessEnv = process.env): void {
  if (isContinuousIntegration(environment))
    throw new Error(`${name} is absent, which continuous integration does not allow: ${consequence}`)
  console.log(`      (${name} is absent: ${consequence})`)
}
