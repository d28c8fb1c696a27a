/**
 * Random passwords of the servers that are started here.
 *
 * Reads and writes secrets.json (0600) in the data directory. Invariant: a purpose keeps its password as long as
 * the data directory lives, because the servers' own data holds its hash.
 */
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { readJson, replaceFile } from './processes.ts'

/** Password by purpose, e.g. `postgres`. */
export type SecretBook = (purpose: string) => string

export function openSecretBook(dataDir: string): SecretBook {
  const file = join(dataDir, 'secrets.json')
  const secrets = readJson<Record<string, string>>(file) ?? {}
  return purpose => {
    const password = secrets[purpose]
    if (password !== undefined) return password
    // Hex needs no escaping in a URL, in XML or in SQL.
    const fresh = randomBytes(18).toString('hex')
    secrets[purpose] = fresh
    replaceFile(file, JSON.stringify(secrets), 0o600)
    return fresh
  }
}
