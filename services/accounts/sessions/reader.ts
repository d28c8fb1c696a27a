/**
 * Judges the session tokens of requests.
 *
 * Reads sessions, accounts and api_keys, writes nothing. Invariant: a signature is checked once in a token's life, and counted on its
 * address before that; the session is looked up as keys are, so a revocation is in force within the bound of fresh-answers.ts.
 */
import { hash } from 'node:crypto'
import type { Tier } from '#infra/config/tiers.ts'
import type { CountFirst, KeyAnswer } from '#infra/http/credential.ts'
import type { Database } from '#infra/postgres/pool.ts'
import { readSession } from '#infra/sign-in/session-token.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import { openFreshAnswers } from '../access/fresh-answers.ts'
import type { SigningKeys } from './signing-keys.ts'

/** Judges session tokens. */
export interface SessionCheck {
  /** Judges the token of a request: it acts as its account's active root key. One that was not checked before is counted first. */
  judge(token: string, countFirst: CountFirst): KeyAnswer | Promise<KeyAnswer>
  /** Forgets what is known of an account's sessions, so that a change made here is in force here at once. */
  forget(accountId: string): void
}

/** How long after its sign-in a session may change who can take the account over; a refresh does not begin it again. */
const RECENT_MS = 10 * MINUTE_MS
/** Tokens whose signature is known to be good. */
const CHECKED_MAX = 10_000

const JUDGED = `SELECT s.id AS session_id, s.account_id, k.id AS key_id, coalesce(k.lineage_id, k.id) AS lineage_id, a.tier, s.created_at, a.disabled_at IS NOT NULL AS disabled,
    k.quota_requests_per_month_override AS quota, k.rate_requests_per_minute_override AS rate
  FROM sessions s JOIN accounts a ON a.id = s.account_id
  JOIN api_keys k ON k.account_id = a.id AND k.kind = 'root' AND k.revoked_at IS NULL
  WHERE s.id = ANY ($1::uuid[]) AND s.revoked_at IS NULL AND s.expires_at > $2`

interface JudgedRow {
  session_id: string
  account_id: string
  key_id: string
  lineage_id: string
  created_at: Date
  tier: Tier
  disabled: boolean
  quota: number | null
  rate: number | null
}

const INVALID = {
  accepted: false as const,
  code: 'AUTH_INVALID_API_KEY' as const,
  detail: 'This session token is not valid, or has expired; take a new one with POST /account/session/refresh.',
}
const DISABLED: KeyAnswer = { accepted: false, code: 'AUTH_ACCOUNT_DISABLED', detail: 'This account is disabled.' }

/** Opens the check; `issuer` is the public root of the API. */
export function openSessionCheck(options: {
  database: Database
  keys: Pick<SigningKeys, 'publicKeyOf'>
  issuer: string
  /** Milliseconds since the epoch. */
  now: () => number
}): SessionCheck {
  const { database, keys, issuer } = options
  /** By the hash of a token. */
  const checked = new Map<string, { sessionId: string; expiresAt: number }>()
  const answers = openFreshAnswers(async sessionIds => {
    const now = options.now()
    const rows = await database.rows<JudgedRow>(JUDGED, [sessionIds, new Date(now)])
    return new Map(rows.map(row => [row.session_id, answerOf(row, now)]))
  }, INVALID)

  async function check(token: string, tokenHash: string, countFirst: CountFirst): Promise<KeyAnswer> {
    const giveBack = await countFirst()
    const now = options.now()
    const claims = await readSession(token, { issuer, now }, id => keys.publicKeyOf(id, now))
    if (!claims) return { ...INVALID, isCounted: true }
    giveBack()
    if (checked.size >= CHECKED_MAX) checked.clear()
    checked.set(tokenHash, claims)
    return answers.judge(claims.sessionId)
  }

  return {
    judge(token, countFirst) {
      const tokenHash = hash('sha256', token, 'base64')
      const claims = checked.get(tokenHash)
      return claims && claims.expiresAt > options.now()
        ? answers.judge(claims.sessionId)
        : check(token, tokenHash, countFirst)
    },
    forget: answers.forget,
  }
}

function answerOf(row: JudgedRow, now: number): KeyAnswer {
  if (row.disabled) return DISABLED
  return {
    accepted: true,
    credential: {
      kind: 'session',
      keyId: row.key_id,
      accountId: row.account_id,
      tier: row.tier,
      isRootKey: true,
      rootKeyId: row.key_id,
      lineageId: row.lineage_id,
      quotaPerMonthOverride: row.quota,
      ratePerMinuteOverride: row.rate,
      scopes: null,
      sessionId: row.session_id,
      isRecentSession: now - row.created_at.getTime() < RECENT_MS,
    },
  }
}
