/**
 * Deletes alert events once they are older than they are kept.
 *
 * Deletes from alert_events. Runs once an hour in every process of the role, which is harmless: a deletion by age may be
 * repeated and cut off anywhere. No statement locks many rows at once.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Database } from '#infra/postgres/pool.ts'
import type { Log } from '#infra/runtime/log.ts'

const DAY_MS = 86_400_000
const KEPT_DAYS = 90
const EVERY_MS = 3_600_000
const ROWS = 5_000

const DELETE = `WITH old AS (SELECT id FROM alert_events WHERE created_at < $1 ORDER BY created_at LIMIT $2)
  DELETE FROM alert_events e USING old WHERE e.id = old.id RETURNING e.id`

/** Deletes the events that are too old at `now`; resolves with their number. */
export async function deleteOldAlertEvents(database: Database, now: number): Promise<number> {
  const before = new Date(now - KEPT_DAYS * DAY_MS)
  for (let total = 0; ; ) {
    const deleted = await database.rows(DELETE, [before, ROWS])
    total += deleted.length
    if (deleted.length < ROWS) return total
  }
}

/** Deletes old events until stopped; a failure is logged and retried an hour later. */
export function startHousekeeping(database: Database, log: Log, now: () => number): { stop(): Promise<void> } {
  const ending = new AbortController()
  const { signal } = ending
  const run = async (): Promise<void> => {
    while (!signal.aborted) {
      try {
        const deleted = await deleteOldAlertEvents(database, now())
        if (deleted > 0) log.info({ deleted, days: KEPT_DAYS }, 'old alert events were deleted')
      } catch (error) {
        log.warn({ err: error }, 'old alert events could not be deleted; it is tried again in an hour')
      }
      await pause(EVERY_MS, undefined, { signal }).catch(() => undefined)
    }
  }
  const running = run()
  return {
    async stop() {
      ending.abort()
      await running
    },
  }
}
