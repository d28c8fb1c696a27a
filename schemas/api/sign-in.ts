/**
 * The routes of sign-in, sessions, addresses and the linked platform account: parameters, bodies and answers.
 *
 * Rules: DECISIONS.md, "Keys and sessions"; the token answers name their members as RFC 6749 (5.1).
 */
import { z } from 'zod'
import { text, violates } from './query-values.ts'
import { instant } from './reply-values.ts'

const STATE_MAX = 200
const TOKEN_MAX = 100
const ADDRESS_MAX = 254
/** One @ with something on both sides, and a domain that is not an address; the mail proves the rest. */
const ADDRESS_FORM = /^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])$/

/** Query with which a browser comes back; its other members are the provider's. */
export const callbackQuery = z.object({ state: text(STATE_MAX) })

/** Body of POST /account/session. */
export const sessionBody = z.strictObject({ code: text(TOKEN_MAX) })

/** Body of POST /account/session/refresh. */
export const refreshBody = z.strictObject({ refresh_token: text(TOKEN_MAX) })

/** Body of POST /account/email. */
export const emailBody = z.strictObject({
  email: text(ADDRESS_MAX).refine(
    value => ADDRESS_FORM.test(value),
    violates('value_error', 'Input should be an e-mail address'),
  ),
})

/** Query of GET /account/email/verify. */
export const verifyQuery = z.object({ token: text(TOKEN_MAX) })

/** Answer of what has no natural body. */
export const okReply = z.strictObject({ ok: z.literal(true) })

/** Answer of GET /account. */
export const accountReply = z.strictObject({
  id: z.uuid(),
  name: z.string().nullable(),
  tier: z.enum(['free', 'starter', 'pro', 'quant']),
  created_at: instant,
  email: z.string().nullable(),
  email_verified: z.boolean(),
  platform_id: z.string().nullable(),
})

/** Answer of GET /account/callback. */
export const signedInReply = z.strictObject({
  /** For POST /account/session, once. */
  code: z.string(),
  expires_at: instant,
  account_id: z.uuid(),
})

/** Answer of what opens or renews a session. */
export const sessionReply = z.strictObject({
  access_token: z.string(),
  token_type: z.literal('Bearer'),
  expires_in: z.int(),
  refresh_token: z.string(),
  /** When the session ends whatever is refreshed. */
  session_expires_at: instant,
})

/** Answer of GET /account/email/verify. */
export const verifiedReply = z.strictObject({ ok: z.literal(true), email: z.string() })

/** Answer of POST /account/platform. */
export const platformBegunReply = z.strictObject({ url: z.string(), expires_at: instant })

/** Answer of GET /account/platform/callback. */
export const platformLinkedReply = z.strictObject({ ok: z.literal(true), platform_id: z.string(), linked_at: instant })

/** Answer of GET /.well-known/jwks.json: public keys, as RFC 7517 has them. */
export const keySetReply = z.strictObject({
  keys: z.array(
    z.strictObject({
      ...{ kty: z.string(), crv: z.string(), x: z.string(), y: z.string() },
      ...{ kid: z.string(), alg: z.string(), use: z.literal('sig') },
    }),
  ),
})
