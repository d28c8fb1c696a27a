import type { Request } from 'express'
import type { Credential } from '#infra/http/credential.ts'
import type { Origin } from '#services/accounts/audit/commands.ts'

/** What the audit log needs of a request. */
export interface AuditNeeds {
  /** The address that a request comes from, behind the proxies that are trusted. */
  clientOf(request: Request): string | undefined
}

/** Who asks, and from where, as the audit log keeps it. */
export const originOf = (
  { clientOf }: AuditNeeds,
  { credential: { accountId, keyId, sessionId }, request }: { credential: Credential; request: Request },
): Origin => ({ accountId, keyId, sessionId, address: clientOf(request) })
