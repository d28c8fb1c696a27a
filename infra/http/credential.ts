import type { Tier } from '#infra/config/tiers.ts'

/** An accepted key, or a session, which acts as its account's active root key. */
export interface Credential {
  kind: 'key' | 'session'
  keyId: string
  accountId: string
  tier: Tier
  isRootKey: boolean
  rootKeyId: string
  /** Lowered limits of a child key; null = the tier's. */
  quotaPerMonthOverride: number | null
  ratePerMinuteOverride: number | null
  /** Of a session alone. */
  sessionId?: string
}

/** Why a credential is refused. */
export type RefusalCode = 'AUTH_INVALID_API_KEY' | 'AUTH_API_KEY_REVOKED' | 'AUTH_ACCOUNT_DISABLED'

/** The directory's answer on a credential. */
export type KeyAnswer =
  | { accepted: true; credential: Credential }
  | { accepted: false; code: RefusalCode; detail: string }
