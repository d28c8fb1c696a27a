/**
 * Brings a database to the newest schema: creates it when missing, then runs what of migrations/ is new.
 *
 * Writes the schema and the table `migrations`. Forward only: a migration that has run is never edited,
 * a mistake is corrected by the next one. Invariant: all new migrations land in one transaction or none,
 * and two processes that start together migrate one after the other, by an advisory lock of the session: no pooler may be between.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { runner } from 'node-pg-migrate'
import { DatabaseError, escapeIdentifier } from 'pg'
import { databaseOf, withDatabase } from '../runtime/postgres-address.ts'
import { askPostgres, withClient } from './client.ts'

const MIGRATIONS = fileURLToPath(new URL('./migrations', import.meta.url))
const CREATE_TRIES = 20
const CREATE_PAUSE_MS = 100

/** SQLSTATE codes: https://www.postgresql.org/docs/current/errcodes-appendix.html */
const NO_SUCH_DATABASE = '3D000'
const EXISTS_ALREADY = new Set(['42P04', '23505'])
/** A connection to the template is open while another CREATE DATABASE copies it. */
const TEMPLATE_IN_USE = '55006'

/**
 * Brings a database to the newest schema; returns the names of the migrations that ran. `most` stops after so many of
 * them: tests make databases of earlier versions with it.
 */
export async function migrate(databaseUrl: string, most = Number.POSITIVE_INFINITY): Promise<string[]> {
  await createWhenMissing(databaseUrl)
  const migrations = await withClient(databaseUrl, dbClient =>
    runner({
      dbClient,
      dir: MIGRATIONS,
      direction: 'up',
      count: most,
      migrationsTable: 'migrations',
      migrationLoaderStrategies: [{ extensions: ['.sql'], loader: 'legacySql' }],
      advisoryLockMode: 'wait',
      singleTransaction: true,
      log: () => {},
    }),
  )
  return migrations.map(({ name }) => name)
}

async function createWhenMissing(databaseUrl: string): Promise<void> {
  if ((await codeOf(askPostgres(databaseUrl))) !== NO_SUCH_DATABASE) return
  const statement = `CREATE DATABASE ${escapeIdentifier(databaseOf(databaseUrl))}`
  for (let attempt = 1; ; attempt++) {
    // On the server's maintenance database, since a database cannot create itself.
    const creating = withClient(withDatabase(databaseUrl, 'postgres'), client => client.query(statement))
    const code = await codeOf(creating)
    if (code === undefined || EXISTS_ALREADY.has(code)) return
    if (code !== TEMPLATE_IN_USE || attempt === CREATE_TRIES) await creating
    await pause(CREATE_PAUSE_MS)
  }
}

/** The code by which the server has refused; undefined where it has not. */
async function codeOf(work: Promise<unknown>): Promise<string | undefined> {
  try {
    await work
    return undefined
  } catch (error) {
    if (error instanceof DatabaseError && error.code !== undefined) return error.code
    throw error
  }
}
