/**
 * Records when keys were last used, in batches.
 *
 * Writes api_keys.last_used_at and nothing else; every role that checks keys notes their use. Invariant: a moment
 * never moves back, whatever the order of processes; recording one is a map write and never waits. A kill
 * loses FLUSH_MS of moments at most; one that Postgres could not store is recorded again by the next use.
 */
import type { Database } from '#infra/postgres/pool.ts'
import type { Log } from '#infra/runtime/log.ts'

const FLUSH_MS = 2_000
/** Keys of one statement; more wait for the next. */
const BATCH = 5_000
const KEYS_MAX = 100_000

/** Rows are locked in the order of their ids, so that two processes never wait for each other in a circle. */
const WRITE = `WITH used AS (
    SELECT k.id, u.at FROM unnest($1::uuid[], $2::timestamptz[]) AS u (id, at) JOIN api_keys k ON k.id = u.id
    ORDER BY k.id FOR NO KEY UPDATE OF k
  )
  UPDATE api_keys k SET last_used_at = GREATEST(k.last_used_at, used.at) FROM used WHERE k.id = used.id`

/** Opens the record of uses; `now` is in milliseconds since the epoch. */
export function openKeyUse(
  database: Database,
  log: Log,
): { note(keyId: string, now: number): void; close(): Promise<void> } {
  const usedAt = new Map<string, number>()
  let writing: Promise<void> | undefined

  async function write(): Promise<void> {
    const batch = [...usedAt].slice(0, BATCH)
    if (batch.length === 0) return
    for (const [keyId] of batch) usedAt.delete(keyId)
    await database.rows(WRITE, [batch.map(([keyId]) => keyId), batch.map(([, at]) => new Date(at).toISOString())])
  }

  const flush = (): Promise<void> => {
    writing ??= write()
      .catch(error => log.warn({ err: error }, 'the last use of keys could not be written'))
      .finally(() => {
        writing = undefined
      })
    return writing
  }
  const timer = setInterval(() => void flush(), FLUSH_MS)

  return {
    note(keyId, now) {
      if (usedAt.size < KEYS_MAX || usedAt.has(keyId)) usedAt.set(keyId, now)
    },
    async close() {
      clearInterval(timer)
      await writing
      await flush()
    },
  }
}
