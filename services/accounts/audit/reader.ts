/** The entries of the audit log, as an operator looks for them, and those of an account. Reads audit_log, writes nothing. */
import { type Database, slicesById } from '#infra/postgres/pool.ts'

export const AUDIT_KINDS = [
  'session.opened',
  'session.refresh_reused',
  'session.all_revoked',
  'key.reissued',
  'child_key.created',
  'child_key.changed',
  'child_key.revoked',
  'child_key.reissued',
  'email.change_requested',
  'email.changed',
  'platform.linked',
  'platform.unlinked',
  'webhook.created',
  'webhook.changed',
  'webhook.removed',
  'webhook.secret_rotated',
  'account.exported',
  'account.deleted',
  'credentials.refused',
] as const

export type AuditKind = (typeof AUDIT_KINDS)[number]

interface AuditRecord {
  id: string
  /** ISO 8601. */
  at: string
  kind: string
  account_id: string | null
  key_id: string | null
  address: string | null
  detail: Record<string, unknown>
}

const SELECT = 'SELECT id, at, kind, account_id, key_id, address, detail FROM audit_log'

/** The latest entries that fit, oldest first; null is no condition, `since` in milliseconds since the epoch. */
export async function readAuditLog(
  database: Database,
  filter: { accountId: string | null; kind: AuditKind | null; since: number; limit: number },
): Promise<AuditRecord[]> {
  const { accountId, kind, since, limit } = filter
  const rows = await database.rows<AuditRecord>(
    `${SELECT} WHERE at >= $1 AND ($2::uuid IS NULL OR account_id = $2) AND ($3::text IS NULL OR kind = $3)
     ORDER BY at DESC, id DESC LIMIT $4`,
    [new Date(since), accountId, kind, limit],
  )
  return rows.reverse()
}

/** The entries of an account as its export has them, oldest first. */
export const auditSlices = (database: Database, accountId: string) =>
  slicesById<Omit<AuditRecord, 'account_id'>>(
    database.rows,
    'SELECT id, at, kind, key_id, address, detail FROM audit_log WHERE account_id = $1',
    [accountId],
  )
