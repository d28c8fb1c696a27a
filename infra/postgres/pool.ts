/**
 * The only access to Postgres: a bounded pool whose connections and statements have limits.
 *
 * Reads and writes what its callers ask for. Moments are ISO 8601 texts in UTC with milliseconds, as answers of the API write them. Invariant: nothing waits for ever - not for a connection, a
 * statement, a lock or an idle transaction - and a transaction whose work throws is rolled back. Nothing rests on a session, so that a
 * pooler may give each transaction another one, and nothing is sent again, since it may have been done. Errors of connections are logged
 * here and reported again by the next statement.
 */
import { type CustomTypesConfig, DatabaseError, type Pool, type QueryResultRow, types } from 'pg'
import { succeeds } from '../runtime/async/retry.ts'
import type { Log } from '../runtime/log.ts'
import { parsePostgresAddress, withDatabase } from '../runtime/postgres-address.ts'
import { Refused } from '../runtime/refused.ts'
import { openPool } from './client.ts'

export type Query = <T extends object = QueryResultRow>(statement: string, values?: readonly unknown[]) => Promise<T[]>

/** The server does not answer, not in time or not now; another try may help. */
export class PostgresUnavailable extends Error {}

export interface Database {
  rows: Query
  /** Runs `work` in one transaction and commits it; rolls back when it throws. */
  transaction<T>(work: (query: Query) => Promise<T>): Promise<T>
  close(): Promise<void>
}

export interface DatabaseOptions {
  /** Shown in pg_stat_activity. */
  name: string
  log: Log
  connections?: number
  /** Longest time that a statement may take. */
  statementLimitMs?: number
}

const CONNECT_LIMIT_MS = 2_000
const STATEMENT_LIMIT_MS = 5_000
const LOCK_LIMIT_MS = 3_000
const IDLE_TRANSACTION_LIMIT_MS = 10_000
const IDLE_CONNECTION_MS = 30_000

const { TIMESTAMPTZ } = types.builtins
const TYPES: CustomTypesConfig = {
  getTypeParser: (oid, format) => {
    const parse = types.getTypeParser(oid, format)
    return oid === TIMESTAMPTZ ? (value: string) => (parse(value) as Date).toISOString() : parse
  },
}

export function openDatabase(url: string, options: DatabaseOptions): Database {
  const { statementLimitMs = STATEMENT_LIMIT_MS } = options
  const limits = {
    statement_timeout: statementLimitMs,
    lock_timeout: LOCK_LIMIT_MS,
    idle_in_transaction_session_timeout: IDLE_TRANSACTION_LIMIT_MS,
  }
  const { isPooled } = parsePostgresAddress(url)
  const pool = openPool(url, {
    application_name: options.name,
    max: options.connections ?? 8,
    connectionTimeoutMillis: CONNECT_LIMIT_MS,
    idleTimeoutMillis: IDLE_CONNECTION_MS,
    // A pooler refuses limits of a session.
    ...(isPooled ? {} : limits),
    // The server's own limit cannot end a statement whose server is gone.
    query_timeout: statementLimitMs + 500,
    keepAlive: true,
    types: TYPES,
  })
  // In the round trip that begins a transaction.
  const limit = isPooled ? Object.entries(limits).map(([name, ms]) => `; SET LOCAL ${name} = ${ms}`) : []
  const warn = (error: Error) => options.log.warn({ pool: options.name, reason: error.message }, 'postgres connection')
  // The pool listens to its idle connections alone.
  pool.on('connect', client => void client.on('error', warn))
  pool.on('error', () => undefined)
  const transaction: Database['transaction'] = work => inTransaction(pool, ['BEGIN', ...limit].join(''), work)
  return {
    transaction,
    rows: (statement, values = []) =>
      isPooled
        ? transaction(query => query(statement, values))
        : answered(pool.query(statement, [...values])).then(({ rows }) => rows),
    close: () => pool.end(),
  }
}

async function inTransaction<T>(pool: Pool, begin: string, work: (query: Query) => Promise<T>): Promise<T> {
  const client = await answered(pool.connect())
  let isSound = false
  try {
    await answered(client.query(begin))
    try {
      const result = await work(
        async (statement, values = []) => (await answered(client.query(statement, [...values]))).rows,
      )
      await answered(client.query('COMMIT'))
      isSound = true
      return result
    } catch (error) {
      // A connection that is lost has rolled back by itself; the first error is the one to throw.
      isSound = await succeeds(client.query('ROLLBACK'))
      throw error
    }
  } finally {
    client.release(!isSound)
  }
}

/** Codes of a mistake of ours in a statement or a value; with all others another try may help. */
const OUR_MISTAKE = /^(22|23|42|P0)/

async function answered<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    const isOurs = error instanceof DatabaseError && OUR_MISTAKE.test(error.code ?? '')
    if (isOurs || error instanceof TypeError || error instanceof Refused) throw error
    throw new PostgresUnavailable(`Postgres cannot answer: ${(error as Error).message}`, { cause: error })
  }
}

/** Whether a statement referred by a column to a row that is not there. */
export const lacksReference = (error: unknown, column: string): boolean =>
  error instanceof DatabaseError && error.code === '23503' && error.constraint?.endsWith(`_${column}_fkey`) === true

/** Waits for the advisory lock of a name, which the transaction of `query` then holds until it ends. */
export async function acquireAdvisoryLock(query: Query, name: string): Promise<void> {
  await query('SELECT pg_advisory_xact_lock(hashtextextended($1, 1))', [name])
}

/** Inserts the named columns of rows in their order; `ending` is a clause on conflicts, or on what is returned. */
export const insertRows = <T extends object = QueryResultRow>(
  query: Query,
  table: string,
  columns: string,
  rows: readonly object[],
  ending = '',
): Promise<T[]> =>
  query<T>(
    `INSERT INTO ${table} (${columns})
    SELECT ${columns} FROM json_populate_recordset(NULL::${table}, $1) WITH ORDINALITY ORDER BY ordinality ${ending}`,
    [JSON.stringify(rows)],
  )

/** How many rows a source has: a table, and what follows it in a statement. */
export async function countRows(query: Query, source: string, values: readonly unknown[]): Promise<number> {
  const [count] = await query<{ total: number }>(`SELECT count(*)::int AS total FROM ${source}`, values)
  return count?.total ?? 0
}

/** A page of the rows of a source, and how many there are. */
export async function readPage<T extends object>(
  query: Query,
  { columns, source, order }: { columns: string; source: string; order: string },
  values: readonly unknown[],
  { limit, offset }: { limit: number; offset: number },
): Promise<{ rows: T[]; total: number }> {
  const page = `LIMIT $${values.length + 1} OFFSET $${values.length + 2}`
  const select = `SELECT ${columns} FROM ${source} ORDER BY ${order} ${page}`
  const [rows, total] = await Promise.all([
    query<T>(select, [...values, limit, offset]),
    countRows(query, source, values),
  ])
  return { rows, total }
}

/** Rows of some hundred bytes, whose JSON takes the event loop some milliseconds. */
const SLICE_ROWS = 500

/**
 * The rows of a SELECT that ends in a condition, by ascending id and some at a time. No connection is held between slices, so a slow
 * reader holds up nobody, and each slice is as of its own moment.
 */
export async function* slicesById<T extends { id: string }>(
  query: Query,
  select: string,
  values: readonly unknown[],
  sliceRows = SLICE_ROWS,
): AsyncGenerator<T[], void> {
  for (let after: string[] = []; ; ) {
    const beyond = after.length === 0 ? '' : `AND id > $${values.length + 1}`
    const slice = await query<T>(`${select} ${beyond} ORDER BY id LIMIT ${sliceRows}`, [...values, ...after])
    if (slice.length > 0) yield slice
    if (slice.length < sliceRows) return
    after = slice.slice(-1).map(({ id }) => id)
  }
}

/** Repeats a statement that returns `most` rows at most until it returns fewer, or the signal aborts. */
export async function inPortions(
  query: Query,
  statement: string,
  values: readonly unknown[],
  { most, signal }: { most: number; signal?: AbortSignal },
): Promise<void> {
  while (!signal?.aborted && (await query(statement, values)).length === most);
}

export const databaseUrl = (serverUrl: string, database: string): string => withDatabase(serverUrl, database)
