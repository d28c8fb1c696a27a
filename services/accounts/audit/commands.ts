/**
 * The audit log: what happened to accounts that matters to their safety, by whom and from where.
 *
 * Sole writer of audit_log. A row is written in the transaction of what it reports, so neither is without the other; bursts of refused
 * credentials are noted beside their answers. Rows are never changed (a trigger of the table holds that) but for their addresses, which
 * become pseudonyms after 30 days, or with the end of their account: digests with a salt that nobody keeps. They go after 400 days.
 * Nothing here names a person: no e-mail address, no URL, no text of a key.
 */
import { randomBytes } from 'node:crypto'
import { type Database, inPortions, type Query } from '#infra/postgres/pool.ts'
import type { Log } from '#infra/runtime/log.ts'
import { DAY_MS, MINUTE_MS } from '#schemas/values/instant.ts'
import type { AuditKind } from './reader.ts'

export interface Origin {
  accountId: string
  keyId: string
  /** Of a session alone. */
  sessionId?: string | undefined
  /** Of the client, behind trusted proxies. */
  address?: string | undefined
}

const KEPT_DAYS = 400
const ADDRESSES_DAYS = 30
const ROWS = 5_000

interface Action {
  kind: AuditKind
  /** Milliseconds since the epoch. */
  at: number
  /** Ids and words of this platform alone. */
  detail?: Record<string, unknown>
}

export async function recordAudit(
  query: Query,
  entry: Action & { accountId: string | null; keyId?: string; address?: string | undefined },
): Promise<void> {
  const { kind, at, accountId, keyId = null, address = null, detail = {} } = entry
  await query('INSERT INTO audit_log (at, kind, account_id, key_id, address, detail) VALUES ($1, $2, $3, $4, $5, $6)', [
    new Date(at),
    kind,
    accountId,
    keyId,
    address,
    JSON.stringify(detail),
  ])
}

/** Adds what a credential asked for and got, within the transaction of `query`. */
export function recordAction(
  query: Query,
  { sessionId: session_id, ...origin }: Origin,
  { detail, ...action }: Action,
): Promise<void> {
  return recordAudit(query, { ...origin, ...action, detail: { session_id, ...detail } })
}

const HIDDEN = `address = '~' || left(encode(sha256(convert_to($2 || address, 'UTF8')), 'hex'), 16)`
const PSEUDONYMISE = `UPDATE audit_log SET ${HIDDEN}
  WHERE id IN (SELECT id FROM audit_log WHERE at < $1 AND address NOT LIKE '~%' ORDER BY at LIMIT ${ROWS}) RETURNING id`
/** The trigger goes by the clock of Postgres, which may be behind. */
const DELETE = `DELETE FROM audit_log
  WHERE id IN (SELECT id FROM audit_log WHERE at < least($1, now() - interval '${KEPT_DAYS} days') ORDER BY at LIMIT ${ROWS}) RETURNING id`

const newSalt = (): string => randomBytes(32).toString('base64')

/** Makes pseudonyms of all addresses of an account within the transaction of `query`. */
export async function hideAddressesOf(query: Query, accountId: string): Promise<void> {
  await query(`UPDATE audit_log SET ${HIDDEN} WHERE account_id = $1 AND address NOT LIKE '~%'`, [accountId, newSalt()])
}

/** Makes pseudonyms of addresses that are old at `now`, and deletes rows that are too old. Once an hour is enough. */
export async function cleanAuditLog({ rows }: Database, now: number): Promise<void> {
  const hidden = [new Date(now - ADDRESSES_DAYS * DAY_MS), newSalt()]
  await inPortions(rows, PSEUDONYMISE, hidden, { most: ROWS })
  await inPortions(rows, DELETE, [new Date(now - KEPT_DAYS * DAY_MS)], { most: ROWS })
}

const BURST = 20
const WINDOW_MS = MINUTE_MS
const QUIET_MS = 10 * MINUTE_MS
const ADDRESSES_MAX = 10_000
const BURSTS_PER_WINDOW = 60

/**
 * Records addresses that sent {@link BURST} refused credentials within a minute, each once in ten minutes and all together 60 a
 * minute: what a stranger can have written is bounded. Counts are of this process alone.
 */
export function openRefusalWatch(
  database: Database,
  log: Log,
  now: () => number,
): { note(address: string | undefined): void } {
  const counts = new Map<string, { until: number; refused: number }>()
  let bursts = { until: 0, recorded: 0 }
  return {
    note(address = 'unknown') {
      const at = now()
      const before = counts.get(address)
      const count = before && at < before.until ? before : { until: at + WINDOW_MS, refused: 0 }
      count.refused += 1
      counts.delete(address)
      counts.set(address, count)
      if (counts.size > ADDRESSES_MAX) counts.delete(counts.keys().next().value as string)
      if (at >= bursts.until) bursts = { until: at + WINDOW_MS, recorded: 0 }
      if (count.refused !== BURST || bursts.recorded >= BURSTS_PER_WINDOW) return
      bursts.recorded += 1
      count.until = at + QUIET_MS
      const entry = { kind: 'credentials.refused', at, accountId: null, address, detail: { refused: BURST } } as const
      recordAudit(database.rows, entry).catch(error =>
        log.warn({ err: error }, 'a burst of refused credentials could not be recorded'),
      )
    },
  }
}
