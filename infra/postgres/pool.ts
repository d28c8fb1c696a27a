/**
 * The only access to Postgres: a bounded pool whose connections and statements have limits.
 *
 * Reads and writes what its callers ask for. Invariant: nothing waits for ever - not for a connection, a
 * statement, a lock or an idle transaction - and a transaction whose work throws is rolled back. Errors of
 * connections are logged here and reported again by the next statement.
 */
import { Pool, type PoolClient, type QueryResultRow } from 'pg'
import type { Log } from '../runtime/log.ts'

/** Runs one statement; it refers to values as `$1`, `$2`. */
export type Query = <T extends QueryResultRow>(statement: string, values?: readonly unknown[]) => Promise<T[]>

/** A Postgres database. */
export interface Database {
  rows: Query
  /** Runs `work` in one transaction and commits it; rolls back when it throws. */
  transaction<T>(work: (query: Query) => Promise<T>): Promise<T>
  close(): Promise<void>
}

/** How a pool behaves. */
interface DatabaseOptions {
  /** Shown in pg_stat_activity. */
  name: string
  log: Log
  /** Connections at most. */
  connections?: number
  /** Longest time that a statement may take. */
  statementLimitMs?: number
}

const CONNECT_LIMIT_MS = 2_000
const STATEMENT_LIMIT_MS = 5_000
const LOCK_LIMIT_MS = 3_000
const IDLE_TRANSACTION_LIMIT_MS = 10_000
const IDLE_CONNECTION_MS = 30_000

/** Opens a pool; it connects when the first statement comes. */
export function openDatabase(url: string, options: DatabaseOptions): Database {
  const { statementLimitMs = STATEMENT_LIMIT_MS } = options
  const pool = new Pool({
    connectionString: url,
    application_name: options.name,
    max: options.connections ?? 8,
    connectionTimeoutMillis: CONNECT_LIMIT_MS,
    idleTimeoutMillis: IDLE_CONNECTION_MS,
    statement_timeout: statementLimitMs,
    // The server's own limit cannot end a statement whose server is gone.
    query_timeout: statementLimitMs + 500,
    lock_timeout: LOCK_LIMIT_MS,
    idle_in_transaction_session_timeout: IDLE_TRANSACTION_LIMIT_MS,
    keepAlive: true,
  })
  const warn = (error: Error) => options.log.warn({ pool: options.name, reason: error.message }, 'postgres connection')
  // The pool listens to its idle connections alone: one that is lost in the middle of a transaction, between two
  // statements, would emit an error without a listener and so end the process.
  pool.on('connect', client => void client.on('error', warn))
  pool.on('error', () => undefined)
  return {
    rows: async (statement, values = []) => (await pool.query(statement, [...values])).rows,
    transaction: async work => {
      const client = await pool.connect()
      try {
        return await inTransaction(client, work)
      } finally {
        client.release()
      }
    },
    close: () => pool.end(),
  }
}

async function inTransaction<T>(client: PoolClient, work: (query: Query) => Promise<T>): Promise<T> {
  await client.query('BEGIN')
  try {
    const result = await work(async (statement, values = []) => (await client.query(statement, [...values])).rows)
    await client.query('COMMIT')
    return result
  } catch (error) {
    // A connection that is lost has rolled back by itself; the first error is the one to throw.
    await client.query('ROLLBACK').catch(() => undefined)
    throw error
  }
}

/** The URL of a namespace's database on a server. */
export function databaseUrl(serverUrl: string, database: string): string {
  const url = new URL(serverUrl)
  url.pathname = `/${database}`
  return url.href
}
