/**
 * The only access to Postgres: a bounded pool whose connections and statements have limits.
 *
 * Reads and writes what its callers ask for. Invariant: nothing waits for ever - not for a connection, a
 * statement, a lock or an idle transaction - and a transaction whose work throws is rolled back. Nothing rests on a session, so that a
 * pooler may give each transaction another one. Sent again is only what cannot have had an effect: BEGIN after a lost connection, and
 * a single statement that a read-only server has refused. Errors of connections are logged here and reported again by the next statement.
 */
import type { PoolClient, QueryResultRow } from 'pg'
import type { Log } from '../runtime/log.ts'
import { withDatabase } from '../runtime/postgres-address.ts'
import { isReadOnly, openServerPool, type ServerPool } from './servers.ts'

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
export interface DatabaseOptions {
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
  const limits = {
    statement_timeout: statementLimitMs,
    lock_timeout: LOCK_LIMIT_MS,
    idle_in_transaction_session_timeout: IDLE_TRANSACTION_LIMIT_MS,
  }
  const servers = openServerPool(url, address => ({
    application_name: options.name,
    max: options.connections ?? 8,
    connectionTimeoutMillis: CONNECT_LIMIT_MS,
    idleTimeoutMillis: IDLE_CONNECTION_MS,
    // A pooler refuses limits of a session.
    ...(address.isPooled ? {} : limits),
    // The server's own limit cannot end a statement whose server is gone.
    query_timeout: statementLimitMs + 500,
    keepAlive: true,
  }))
  const { pool, isPooled } = servers
  const begin = isPooled ? beginWithin(limits) : 'BEGIN'
  const warn = (error: Error) => options.log.warn({ pool: options.name, reason: error.message }, 'postgres connection')
  // The pool listens to its idle connections alone: one that is lost in the middle of a transaction, between two
  // statements, would emit an error without a listener and so end the process.
  pool.on('connect', client => void client.on('error', warn))
  pool.on('error', () => undefined)
  const transaction: Database['transaction'] = work => inTransaction(servers, begin, work)
  return {
    transaction,
    rows: (statement, values = []) =>
      isPooled ? transaction(query => query(statement, values)) : runStatement(servers, statement, values),
    close: () => pool.end(),
  }
}

/** Limits of a transaction, in the round trip that begins it. */
const beginWithin = (limits: Record<string, number>): string =>
  ['BEGIN', ...Object.entries(limits).map(([name, ms]) => `SET LOCAL ${name} = ${ms}`)].join('; ')

/** Runs a statement of its own; one that was refused by a server that is read-only now is sent to another, once. */
async function runStatement<T extends QueryResultRow>(
  servers: ServerPool,
  statement: string,
  values: readonly unknown[],
  isRepeat = false,
): Promise<T[]> {
  const client = await servers.pool.connect()
  try {
    const { rows } = await client.query<T>(statement, [...values])
    servers.giveBack(client)
    return rows
  } catch (error) {
    servers.giveBack(client, error)
    if (isRepeat || !isReadOnly(error)) throw error
  }
  return runStatement(servers, statement, values, true)
}

async function inTransaction<T>(servers: ServerPool, begin: string, work: (query: Query) => Promise<T>): Promise<T> {
  const client = await beginSomewhere(servers, begin)
  try {
    const result = await work(async (statement, values = []) => (await client.query(statement, [...values])).rows)
    await client.query('COMMIT')
    servers.giveBack(client)
    return result
  } catch (error) {
    // A connection that is lost has rolled back by itself; the first error is the one to throw.
    const isRolledBack = await client.query('ROLLBACK').then(
      () => true,
      () => false,
    )
    servers.giveBack(client, isRolledBack && !isReadOnly(error) ? undefined : error)
    throw error
  }
}

/** A connection whose server went away while it was idle may be noticed by BEGIN alone, which has done nothing. */
async function beginSomewhere(servers: ServerPool, begin: string, isRepeat = false): Promise<PoolClient> {
  const client = await servers.pool.connect()
  try {
    await client.query(begin)
    return client
  } catch (error) {
    const isLost = servers.isLost(client)
    servers.giveBack(client, error)
    if (isRepeat || !isLost) throw error
  }
  return beginSomewhere(servers, begin, true)
}

/** The URL of a namespace's database on a server. */
export const databaseUrl = (serverUrl: string, database: string): string => withDatabase(serverUrl, database)
