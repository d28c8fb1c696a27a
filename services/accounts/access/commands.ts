/**
 * Records when keys were last used, in batches.
 *
 * Writes api_keys.last_used_at and nothing else; every role that checks keys notes their use. Invariant: a moment
 * never moves back, whatever the order of processes; recording one is a map write and never waits. A kill
 * loses FLUSH_MS of moments at most; one that Postgres could not store is recorded again by the next use.
 */
import { setTimeout as delay } from 'node:timers/promises'
import type { Database } from '#infra/postgres/pool.ts'
import type { Log } from '#infra/runtime/log.ts'

const FLUSH_MS = 2_000
/** Keys of one statement; the use of more is recorded by a later one. */
const KEYS_MAX = 10_000

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
  let usedAt = new Map<string, number>()
  const ending = new AbortController()

  async function write(): Promise<void> {
    const batch = usedAt
    if (batch.size === 0) return
    usedAt = new Map()
    const values = [
      [...batch.keys()],
      batch
        .values()
        .map(at => new Date(at).toISOString())
        .toArray(),
    ]
    await database
      .rows(WRITE, values)
      .catch(error => log.warn({ err: error }, 'the last use of keys could not be written'))
  }
  async function run({ signal }: AbortController): Promise<void> {
    while (!signal.aborted) {
      await delay(FLUSH_MS, undefined, { signal }).catch(() => undefined)
      await write()
    }
    await write()
  }
  const running = run(ending)

  return {
    note(keyId, now) {
      if (usedAt.size < KEYS_MAX || usedAt.has(keyId)) usedAt.set(keyId, now)
    },
    async close() {
      ending.abort()
      await running
    },
  }
}
