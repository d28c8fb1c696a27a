import type { Database } from '#infra/postgres/pool.ts'

/** Does work while a transaction of its own holds what a statement locks, and lets go however the work ends. */
export async function whileLocked<T>(
  database: Database,
  [statement, values]: [statement: string, values?: readonly unknown[]],
  work: () => Promise<T>,
): Promise<T> {
  const locked = Promise.withResolvers<void>()
  const over = Promise.withResolvers<void>()
  const holding = database.transaction(async query => {
    await query('SET LOCAL idle_in_transaction_session_timeout = 0')
    await query(statement, values)
    locked.resolve()
    await over.promise
  })
  try {
    await Promise.race([locked.promise, holding])
    return await work()
  } finally {
    over.resolve()
    await holding
  }
}

/** How many sessions of a database wait for a lock; `name` is the beginning of their application's. */
export async function waitingForLocks({ rows }: Database, name = ''): Promise<number> {
  const [found] = await rows<{ count: number }>(
    `SELECT count(*)::int AS count FROM pg_stat_activity
     WHERE datname = current_database() AND wait_event_type = 'Lock' AND starts_with(application_name, $1)`,
    [name],
  )
  return found?.count ?? 0
}
