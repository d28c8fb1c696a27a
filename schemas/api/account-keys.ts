/** Rules: DECISIONS.md, "Keys and sessions". Only the answers that issue a key hold its text. */
import { z } from 'zod'
import { clampedPage, namesChange, needsChange, optional, text, uuid } from './query-values.ts'
import { exampleOf, instant, offsetPages } from './reply-values.ts'
import { SCOPES, type Scope } from './scopes.ts'

interface ChildKeyScope {
  requests_per_month: number
  requests_per_minute: number
}

const NAME_MAX = 100
const ROOT_ID = '4b6f1f0e-3f4e-4c55-9a0e-2f5a6d1c7b90'
const CHILD_ID = '9d0c2a4e-7b1d-4f7e-8f6a-51c3f2b8e6d4'
/** Was never a key. */
const EXAMPLE_TEXT = 'Y2hpbGQga2V5IGV4YW1wbGUsIG5vdCBhIHJlYWwgb24'

const NOTES = {
  name: { description: 'Name, 1 to 100 characters.', example: 'dashboard' },
  quota: { description: 'Requests of a calendar month, at most those of the tier.', example: 50_000 },
  rate: { description: 'Requests of a minute, at most those of the tier.', example: 60 },
  scopes: {
    description: 'All that the key may do; left out, everything that a key of its tier may.',
    example: ['market:read', 'feeds'] satisfies Scope[],
  },
}

const limitsOf = ({ requests_per_month, requests_per_minute }: ChildKeyScope) => ({
  quota: z.int().min(1).max(requests_per_month),
  rate: z.int().min(1).max(requests_per_minute),
  scopes: z.array(z.enum(SCOPES)).min(1).max(SCOPES.length),
})

export const childKeyParams = z.object({ id: uuid().meta({ description: 'Id of the child key.', example: CHILD_ID }) })

export const childKeysQuery = z.object(clampedPage({ max: 100, otherwise: 25 }))

export const childKeyBody = (scope: ChildKeyScope) => {
  const { quota, rate, scopes } = limitsOf(scope)
  return z.strictObject({
    name: text(NAME_MAX).meta(NOTES.name),
    quota_requests_per_month_override: optional(quota).meta(NOTES.quota),
    rate_requests_per_minute_override: optional(rate).meta(NOTES.rate),
    scopes: optional(scopes).meta(NOTES.scopes),
  })
}

/** Body of PATCH /account/sub-keys/:id: at least one member; null removes a limit, and the scopes. */
export const childKeyPatch = (scope: ChildKeyScope) => {
  const { quota, rate, scopes } = limitsOf(scope)
  return z
    .strictObject({
      name: optional(text(NAME_MAX)).meta(NOTES.name),
      quota_requests_per_month_override: quota.nullable().optional().meta(NOTES.quota),
      rate_requests_per_minute_override: rate.nullable().optional().meta(NOTES.rate),
      scopes: scopes.nullable().optional().meta(NOTES.scopes),
    })
    .refine(namesChange, needsChange)
}

const createdAt = instant.meta({ example: '2026-03-01T09:00:00.000Z' })

export const keyInfo = z
  .strictObject({
    id: z.uuid().meta({ example: ROOT_ID }),
    key_prefix: z.enum(['sk_live_root', 'sk_live_child']),
    name: z.string().nullable(),
    root_key_id: z.uuid().meta({ example: ROOT_ID }),
    is_root_key: z.boolean().meta({ example: true }),
    is_active: z.boolean().meta({ example: true }),
    created_at: createdAt,
    last_used_at: instant.nullable().meta({ example: '2026-03-03T21:41:00.000Z' }),
    expires_at: instant.nullable(),
    quota_requests_per_month_override: z.int().nullable(),
    rate_requests_per_minute_override: z.int().nullable(),
    effective_quota_requests_per_month: z.int().meta({ example: 1_000_000 }),
    effective_rate_requests_per_minute: z.int().meta({ example: 300 }),
    scopes: z.array(z.enum(SCOPES)).nullable().describe('All that a child key may do; null where it is not confined.'),
  })
  .meta({ id: 'KeyInfo' })

export type KeyInfo = z.infer<typeof keyInfo>

const childKeyInfo = keyInfo.meta({
  example: {
    ...(exampleOf(keyInfo) as KeyInfo),
    id: CHILD_ID,
    key_prefix: 'sk_live_child',
    name: 'dashboard',
    is_root_key: false,
    quota_requests_per_month_override: 50_000,
    effective_quota_requests_per_month: 50_000,
    scopes: ['market:read', 'feeds'],
  },
})

export const keyReply = z.strictObject({ key: keyInfo })

const keyText = z.string().describe('The text of the key, in no other reply.')

export const reissuedKeyReply = z.strictObject({
  key: keyText.meta({ example: `sk_live_root_${EXAMPLE_TEXT}` }),
  key_prefix: z.literal('sk_live_root'),
  id: z.uuid().meta({ example: ROOT_ID }),
  created_at: createdAt,
  message: z.string().meta({
    example: 'Keep this key now: it is shown this once. The former root key and its child keys are revoked.',
  }),
})

export const childKeyReply = z.strictObject({
  key: childKeyInfo,
  requests_this_month: z
    .int()
    .min(0)
    .meta({ description: 'Counted requests of the calendar month (UTC).', example: 1_204 }),
})

export const childKeysReply = z.strictObject({ keys: z.array(childKeyReply), pagination: offsetPages(25) })

export const issuedChildKeyReply = z.strictObject({
  key: keyText.meta({ example: `sk_live_child_${EXAMPLE_TEXT}` }),
  key_info: childKeyInfo,
  message: z.string().meta({ example: 'Keep this key now: it is shown this once.' }),
})

export const revokedKeyReply = z.strictObject({
  ok: z.literal(true),
  key_id: z.uuid().meta({ example: CHILD_ID }),
  revoked_at: instant.meta({ example: '2026-03-04T08:00:00.000Z' }),
})
