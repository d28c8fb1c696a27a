/** The entries of the audit log, as an operator looks for them, and those of an account. Reads audit_log, writes nothing. */
import type { Database } from '#infra/postgres/pool.ts'
import { slicesById } from '#infra/postgres/slices.ts'

/** What an entry may report. */
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

/** The kind of an entry. */
export type AuditKind = (typeof AUDIT_KINDS)[number]

/** An entry; `at` in milliseconds since the epoch. */
interface AuditRecord {
  id: string
  at: number
  kind: string
  accountId: string | null
  keyId: string | null
  address: string | null
  detail: Record<string, unknown>
}

/** What is looked for; null is no condition. */
interface AuditFilter {
  accountId: string | null
  kind: AuditKind | null
  /** Milliseconds since the epoch. */
  since: number
  limit: number
}

interface AuditRow {
  id: string
  at: Date
  kind: string
  account_id: string | null
  key_id: string | null
  address: string | null
  detail: Record<string, unknown>
}

const SELECT = 'SELECT id, at, kind, account_id, key_id, address, detail FROM audit_log'

/** The latest entries that fit, oldest first. */
export async function readAuditLog(database: Database, filter: AuditFilter): Promise<AuditRecord[]> {
  const { accountId, kind, since, limit } = filter
  const rows = await database.rows<AuditRow>(
    `${SELECT} WHERE at >= $1 AND ($2::uuid IS NULL OR account_id = $2) AND ($3::text IS NULL OR kind = $3)
     ORDER BY at DESC, id DESC LIMIT $4`,
    [new Date(since), accountId, kind, limit],
  )
  return rows.reverse().map(recordOfRow)
}

/** The entries of an account, oldest first. */
export async function* auditSlices(database: Database, accountId: string): AsyncGenerator<AuditRecord[]> {
  const select = `${SELECT} WHERE account_id = $1`
  for await (const rows of slicesById<AuditRow>(database.rows, select, { values: [accountId] }))
    yield rows.map(recordOfRow)
}

const recordOfRow = ({ at, account_id: accountId, key_id: keyId, ...row }: AuditRow): AuditRecord => ({
  ...row,
  at: at.getTime(),
  accountId,
  keyId,
})
