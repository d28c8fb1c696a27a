/**
 * Secrets of the environment: `NAME` holds one, or `NAME_FILE` names the file that does.
 *
 * A file is read again at every use, so that a secret that was replaced is in force without a restart. What is read is never
 * logged, and no error quotes it.
 */
import { readFileSync } from 'node:fs'

/** Gives the secret as it is now; throws when its file can no longer be read. */
export type Secret = () => string

export type Environment = Readonly<Record<string, string | undefined>>

/** The secret of a name; undefined when the environment names none. Faults name the variable. */
export function readSecret(env: Environment, name: string, faults: string[]): Secret | undefined {
  const [value, file] = [env[name], env[`${name}_FILE`]]
  if (value && file) faults.push(`${name} and ${name}_FILE are both set`)
  if (value) return () => value
  if (!file) return undefined
  const read: Secret = () => {
    try {
      return readFileSync(file, 'utf8').trim()
    } catch (error) {
      throw new Error(`${name}_FILE cannot be read: ${(error as Error).message}`)
    }
  }
  try {
    if (read() === '') faults.push(`${name}_FILE is empty`)
  } catch (error) {
    faults.push((error as Error).message)
  }
  return read
}

/** Whether the environment names a secret, as a value or as a file. */
export const hasSecret = (env: Environment, name: string): boolean => Boolean(env[name] || env[`${name}_FILE`])
