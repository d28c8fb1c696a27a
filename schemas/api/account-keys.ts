/**
 * The routes of API keys: parameters, bodies and answers.
 *
 * Rules: DECISIONS.md, "Keys and sessions". Invariant: a limit of a child key never exceeds its tier's; the
 * text of a key is in the answers that issue one and nowhere else.
 */
import { z } from 'zod'
import { clampedPage, optional, text, uuid, violates } from './query-values.ts'
import { instant, offsetPagination } from './reply-values.ts'

/** The tier's limits, which bound a child key's. */
export interface ChildKeyScope {
  quotaMax: number
  rateMax: number
}

const NAME_MAX = 100

const limitsOf = ({ quotaMax, rateMax }: ChildKeyScope) => ({
  quota: z.int().min(1).max(quotaMax),
  rate: z.int().min(1).max(rateMax),
})

/** The bounds that a tier's limits set. */
export const childKeyScope = (tier: { requests_per_month: number; requests_per_minute: number }): ChildKeyScope => ({
  quotaMax: tier.requests_per_month,
  rateMax: tier.requests_per_minute,
})

/** Path of one child key. */
export const childKeyParams = z.object({ id: uuid() })

/** Query of GET /account/sub-keys. */
export const childKeysQuery = z.object(clampedPage({ max: 100, otherwise: 25 }))

/** Body of POST /account/sub-keys. */
export const childKeyBody = (scope: ChildKeyScope) => {
  const { quota, rate } = limitsOf(scope)
  return z.strictObject({
    name: text(NAME_MAX),
    quota_requests_per_month_override: optional(quota),
    rate_requests_per_minute_override: optional(rate),
  })
}

/** Body of PATCH /account/sub-keys/:id: something at least; null takes a limit back. */
export const childKeyPatch = (scope: ChildKeyScope) => {
  const { quota, rate } = limitsOf(scope)
  return z
    .strictObject({
      name: optional(text(NAME_MAX)),
      quota_requests_per_month_override: quota.nullable().optional(),
      rate_requests_per_minute_override: rate.nullable().optional(),
    })
    .refine(
      body => Object.values(body).some(value => value !== undefined),
      violates('value_error', 'The body should name something to change'),
    )
}

/** What clients may see of a key. */
export const keyInfo = z.strictObject({
  id: z.uuid(),
  key_prefix: z.enum(['sk_live_root', 'sk_live_child']),
  name: z.string().nullable(),
  root_key_id: z.uuid(),
  is_root_key: z.boolean(),
  is_active: z.boolean(),
  created_at: instant,
  last_used_at: instant.nullable(),
  expires_at: instant.nullable(),
  quota_requests_per_month_override: z.int().nullable(),
  rate_requests_per_minute_override: z.int().nullable(),
  effective_quota_requests_per_month: z.int(),
  effective_rate_requests_per_minute: z.int(),
})

/** Answer of GET /account/key. */
export const keyReply = z.strictObject({ key: keyInfo })

/** Answer of POST /account/key/reissue. */
export const reissuedKeyReply = z.strictObject({
  /** The only copy. */
  key: z.string(),
  key_prefix: z.literal('sk_live_root'),
  id: z.uuid(),
  created_at: instant,
  message: z.string(),
})

/** One child key. */
export const childKeyReply = z.strictObject({
  key: keyInfo,
  /** Counted requests of the calendar month (UTC). */
  requests_this_month: z.int().min(0),
})

/** Answer of GET /account/sub-keys. */
export const childKeysReply = z.strictObject({ keys: z.array(childKeyReply), pagination: offsetPagination })

/** Answer of what issues a child key. */
export const issuedChildKeyReply = z.strictObject({
  /** The only copy. */
  key: z.string(),
  key_info: keyInfo,
  message: z.string(),
})

/** Answer of DELETE /account/sub-keys/:id. */
export const revokedKeyReply = z.strictObject({ ok: z.literal(true), key_id: z.uuid(), revoked_at: instant })

/** What clients may see of a key. */
export type KeyInfo = z.infer<typeof keyInfo>
