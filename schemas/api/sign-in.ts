/** Rules: DECISIONS.md, "Keys and sessions". The token replies name their members as RFC 6749 (5.1). */
import { z } from 'zod'
import { text, violates } from './query-values.ts'
import { instant } from './reply-values.ts'

const STATE_MAX = 200
const TOKEN_MAX = 100
const ADDRESS_MAX = 254
/** One @ between a local part and a domain that is no address literal; the verification mail checks the rest. */
const ADDRESS_FORM = /^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])$/

const VERIFY_FORM = /^verify_[\w-]{43}$/

const EXAMPLE_ID = '4b6f1f0e-3f4e-4c55-9a0e-2f5a6d1c7b90'
const EXAMPLE_EMAIL = 'trader@example.com'
/** Was never a token. */
const EXAMPLE_TEXT = 'Y2hpbGQga2V5IGV4YW1wbGUsIG5vdCBhIHJlYWwgb24'

const exampleInstant = instant.meta({ example: '2026-03-01T09:00:00.000Z' })

/** Query of a browser that returns from a sign-in; other members belong to the provider. */
export const callbackQuery = z.object({
  state: text(STATE_MAX).meta({
    description: 'The `state` of the URL that began the sign-in.',
    example: 'pWc8Zr0nQ2b4',
  }),
})

export const sessionBody = z.strictObject({
  code: text(TOKEN_MAX).meta({
    description: 'Code of a completed sign-in.',
    example: 'code_Zm9yIG9uZSB1c2Ugb25seSwgbm90IGEgcmVhbCBjb2Q',
  }),
})

export const refreshBody = z.strictObject({
  refresh_token: text(TOKEN_MAX).meta({
    description: 'The newest refresh token of the session.',
    example: 'refresh_Zm9yIG9uZSB1c2Ugb25seSwgbm90IGEgcmVhbCBvbmU',
  }),
})

export const emailBody = z.strictObject({
  email: text(ADDRESS_MAX)
    .refine(value => ADDRESS_FORM.test(value), violates('value_error', 'Input should be an e-mail address'))
    .meta({ description: 'E-mail address.', example: EXAMPLE_EMAIL }),
})

/** Query of /account/email/verify. Its page shows the token, so no markup may pass. */
export const verifyQuery = z.object({
  token: text(TOKEN_MAX)
    .refine(value => VERIFY_FORM.test(value), violates('value_error', 'Input should be the token of a link, whole'))
    .meta({
      pattern: VERIFY_FORM.source,
      description: 'Text of the link.',
      example: 'verify_Zm9yIG9uZSB1c2Ugb25seSwgbm90IGEgcmVhbCBvbmU',
    }),
})

export const okReply = z.strictObject({ ok: z.literal(true) })

export const accountReply = z.strictObject({
  id: z.uuid().meta({ example: EXAMPLE_ID }),
  name: z.string().nullable(),
  tier: z.enum(['free', 'starter', 'pro', 'quant']).meta({ example: 'quant' }),
  created_at: exampleInstant,
  email: z.string().nullable().meta({ example: EXAMPLE_EMAIL }),
  email_verified: z.boolean().meta({ example: true }),
  platform_id: z.string().nullable(),
})

export const signedInReply = z.strictObject({
  code: z.string().meta({ description: 'For POST /account/session, once.', example: `code_${EXAMPLE_TEXT}` }),
  expires_at: exampleInstant,
  account_id: z.uuid().meta({ example: EXAMPLE_ID }),
})

export const sessionReply = z.strictObject({
  access_token: z.string().meta({ example: 'header.claims.signature' }),
  token_type: z.literal('Bearer'),
  expires_in: z.int().meta({ example: 900 }),
  refresh_token: z.string().meta({ example: `refresh_${EXAMPLE_TEXT}` }),
  session_expires_at: instant.meta({
    description: 'When the session ends, however often it is refreshed.',
    example: '2026-03-31T09:00:00.000Z',
  }),
})

export const pageReply = z.string().meta({ example: '<!doctype html><html lang="en">…</html>' })

export const deletionBody = z.strictObject({
  confirm: text(ADDRESS_MAX).meta({
    description: 'The e-mail address of the account as `GET /v1/account` shows it, or its `id` where it has none.',
    example: EXAMPLE_EMAIL,
  }),
})

export const platformBegunReply = z.strictObject({
  url: z.string().meta({ example: 'https://platform.example.com/openid/login' }),
  expires_at: exampleInstant,
})

export const platformLinkedReply = z.strictObject({
  ok: z.literal(true),
  platform_id: z.string().meta({ example: '70000000000000001' }),
  linked_at: exampleInstant,
})

export const keySetReply = z.strictObject({
  keys: z.array(
    z.strictObject({
      kty: z.string().meta({ example: 'EC' }),
      crv: z.string().meta({ example: 'P-256' }),
      x: z.string().meta({ example: EXAMPLE_TEXT }),
      y: z.string().meta({ example: EXAMPLE_TEXT }),
      kid: z.string().meta({ example: '9d0c2a4e-7b1d-4f7e-8f6a-51c3f2b8e6d4' }),
      alg: z.string().meta({ example: 'ES256' }),
      use: z.literal('sig'),
    }),
  ),
})
