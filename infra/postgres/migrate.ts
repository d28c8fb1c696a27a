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
import { type Client, DatabaseError } from 'pg'
import { databaseOf, withDatabase } from '../runtime/postgres-address.ts'
import { connectClient } from './client.ts'

const MIGRATIONS = fileURLToPath(new URL('./migrations', import.meta.url))
const CONNECT_LIMIT_MS = 5_000
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
  const ran: string[] = []
  await connected(databaseUrl, async dbClient => {
    const migrations = await runner({
      dbClient,
      dir: MIGRATIONS,
      direction: 'up',
      count: most,
      migrationsTable: 'migrations',
      migrationLoaderStrategies: [{ extensions: ['.sql'], loader: 'legacySql' }],
      advisoryLockMode: 'wait',
      singleTransaction: true,
      log: () => {},
    })
    ran.push(...migrations.map(({ name }) => name))
  })
  return ran
}

async function createWhenMissing(databaseUrl: string): Promise<void> {
  if (await exists(databaseUrl)) return
  const statement = `CREATE DATABASE ${quoted(databaseOf(databaseUrl))}`
  for (let attempt = 1; ; attempt++) {
    try {
      await onServer(databaseUrl, client => client.query(statement))
      return
    } catch (error) {
      const code = error instanceof DatabaseError ? (error.code ?? '') : ''
      if (EXISTS_ALREADY.has(code)) return
      if (code !== TEMPLATE_IN_USE || attempt === CREATE_TRIES) throw error
      await pause(CREATE_PAUSE_MS)
    }
  }
}

async function exists(databaseUrl: string): Promise<boolean> {
  try {
    await connected(databaseUrl, async () => undefined)
    return true
  } catch (error) {
    if (error instanceof DatabaseError && error.code === NO_SUCH_DATABASE) return false
    throw error
  }
}

/** Works on the server's maintenance database, since a database cannot create or drop itself. */
const onServer = (databaseUrl: string, work: (client: Client) => Promise<unknown>): Promise<void> =>
  connected(withDatabase(databaseUrl, 'postgres'), work)

async function connected(url: string, work: (client: Client) => Promise<unknown>): Promise<void> {
  const client = await connectClient(url, { connectionTimeoutMillis: CONNECT_LIMIT_MS })
  try {
    await work(client)
  } finally {
    await client.end().catch(() => undefined)
  }
}

const quoted = (name: string): string => `"${name.replaceAll('"', '""')}"`
