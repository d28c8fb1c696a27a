/**
 * Example answers of keys and sign-in, for the API's description.
 *
 * Names are those of the description's schemas; no text here was ever a key or a token.
 */

const ROOT_ID = '4b6f1f0e-3f4e-4c55-9a0e-2f5a6d1c7b90'
const CHILD_ID = '9d0c2a4e-7b1d-4f7e-8f6a-51c3f2b8e6d4'
const CREATED = '2026-03-01T09:00:00.000Z'
const TEXT = 'Y2hpbGQga2V5IGV4YW1wbGUsIG5vdCBhIHJlYWwgb24'

const rootKey = {
  id: ROOT_ID,
  key_prefix: 'sk_live_root',
  name: null,
  root_key_id: ROOT_ID,
  is_root_key: true,
  is_active: true,
  created_at: CREATED,
  last_used_at: '2026-03-03T21:41:00.000Z',
  expires_at: null,
  quota_requests_per_month_override: null,
  rate_requests_per_minute_override: null,
  effective_quota_requests_per_month: 1_000_000,
  effective_rate_requests_per_minute: 300,
}

const childKey = {
  ...rootKey,
  id: CHILD_ID,
  key_prefix: 'sk_live_child',
  name: 'dashboard',
  is_root_key: false,
  quota_requests_per_month_override: 50_000,
  effective_quota_requests_per_month: 50_000,
}

const child = { key: childKey, requests_this_month: 1_204 }
const issued = {
  key: `sk_live_child_${TEXT}`,
  key_info: childKey,
  message: 'Keep this key now: it is shown this once.',
}

/** By name of the reply. */
export const ACCOUNT_EXAMPLES: Record<string, unknown> = {
  KeyReply: { key: rootKey },
  ReissuedKeyReply: {
    key: `sk_live_root_${TEXT}`,
    key_prefix: 'sk_live_root',
    id: ROOT_ID,
    created_at: CREATED,
    message: 'Keep this key now: it is shown this once. The former root key and its child keys are revoked.',
  },
  ChildKeysReply: {
    keys: [child],
    pagination: { limit: 25, offset: 0, total: 1, has_next: false, has_prev: false },
  },
  ChildKeyReply: child,
  IssuedChildKeyReply: issued,
  ...signInExamples(),
  RevokedKeyReply: { ok: true, key_id: CHILD_ID, revoked_at: '2026-03-04T08:00:00.000Z' },
}

function signInExamples(): Record<string, unknown> {
  return {
    OkReply: { ok: true },
    AccountReply: {
      ...{ id: ROOT_ID, name: null, tier: 'quant', created_at: CREATED },
      ...{ email: 'trader@example.com', email_verified: true, platform_id: null },
    },
    SignedInReply: { code: `code_${TEXT}`, expires_at: CREATED, account_id: ROOT_ID },
    SessionReply: {
      ...{ access_token: 'header.claims.signature', token_type: 'Bearer', expires_in: 900 },
      ...{ refresh_token: `refresh_${TEXT}`, session_expires_at: '2026-03-31T09:00:00.000Z' },
    },
    VerifiedReply: { ok: true, email: 'trader@example.com' },
    PlatformBegunReply: { url: 'https://platform.example.com/openid/login', expires_at: CREATED },
    PlatformLinkedReply: { ok: true, platform_id: '70000000000000001', linked_at: CREATED },
    KeySetReply: {
      keys: [{ kty: 'EC', crv: 'P-256', x: TEXT, y: TEXT, kid: CHILD_ID, alg: 'ES256', use: 'sig' }],
    },
  }
}
