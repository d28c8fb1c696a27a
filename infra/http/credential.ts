import type { Tier } from '#infra/config/tiers.ts'
import type { Scope } from '#schemas/api/scopes.ts'

/** An accepted key, or a session, which acts as its account's active root key. */
export interface Credential {
  kind: 'key' | 'session'
  keyId: string
  accountId: string
  tier: Tier
  isRootKey: boolean
  rootKeyId: string
  /** Counts for its limits; a key that replaces this one has the same. */
  lineageId: string
  /** Lowered limits of a child key; null = the tier's. */
  quota_requests_per_month_override: number | null
  rate_requests_per_minute_override: number | null
  /** Confine a child key; null = nothing does. */
  scopes: readonly Scope[] | null
  /** Of a session alone. */
  sessionId?: string
  /** Of a session alone: it was opened within the last ten minutes. */
  isRecentSession?: boolean
}

export type RefusalCode = 'AUTH_INVALID_API_KEY' | 'AUTH_API_KEY_REVOKED' | 'AUTH_ACCOUNT_DISABLED'

export type KeyAnswer =
  | { accepted: true; credential: Credential }
  | {
      accepted: false
      code: RefusalCode
      detail: string
      /** Whether it was counted on its address before it was checked. */
      isCounted?: true
    }

/**
 * Counts a credential on its address, or throws the 429, before a check that costs something; returns what takes that back when
 * the credential is a good one.
 */
export type CountFirst = () => Promise<() => void>
