/**
 * Sign-in, sessions, e-mail addresses and the linked platform account.
 *
 * Rules: DECISIONS.md, "Keys and sessions"; the token replies name their members as RFC 6749 (5.1).
 */
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
const EXAMPLE_INSTANT = '2026-03-01T09:00:00.000Z'
const EXAMPLE_EMAIL = 'trader@example.com'
/** Was never a token. */
const EXAMPLE_TEXT = 'Y2hpbGQga2V5IGV4YW1wbGUsIG5vdCBhIHJlYWwgb24'

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

export const okReply = z.strictObject({ ok: z.literal(true) }).meta({ example: { ok: true } })

export const accountReply = z
  .strictObject({
    id: z.uuid(),
    name: z.string().nullable(),
    tier: z.enum(['free', 'starter', 'pro', 'quant']),
    created_at: instant,
    email: z.string().nullable(),
    email_verified: z.boolean(),
    platform_id: z.string().nullable(),
  })
  .meta({
    example: {
      id: EXAMPLE_ID,
      name: null,
      tier: 'quant',
      created_at: EXAMPLE_INSTANT,
      email: EXAMPLE_EMAIL,
      email_verified: true,
      platform_id: null,
    },
  })

export const signedInReply = z
  .strictObject({
    code: z.string().describe('For POST /account/session, once.'),
    expires_at: instant,
    account_id: z.uuid(),
  })
  .meta({ example: { code: `code_${EXAMPLE_TEXT}`, expires_at: EXAMPLE_INSTANT, account_id: EXAMPLE_ID } })

export const sessionReply = z
  .strictObject({
    access_token: z.string(),
    token_type: z.literal('Bearer'),
    expires_in: z.int(),
    refresh_token: z.string(),
    session_expires_at: instant.describe('When the session ends, however often it is refreshed.'),
  })
  .meta({
    example: {
      access_token: 'header.claims.signature',
      token_type: 'Bearer',
      expires_in: 900,
      refresh_token: `refresh_${EXAMPLE_TEXT}`,
      session_expires_at: '2026-03-31T09:00:00.000Z',
    },
  })

export const pageReply = z.string().meta({ example: '<!doctype html><html lang="en">…</html>' })

export const deletionBody = z.strictObject({
  confirm: text(ADDRESS_MAX).meta({
    description: 'The e-mail address of the account as `GET /v1/account` shows it, or its `id` where it has none.',
    example: EXAMPLE_EMAIL,
  }),
})

export const platformBegunReply = z
  .strictObject({ url: z.string(), expires_at: instant })
  .meta({ example: { url: 'https://platform.example.com/openid/login', expires_at: EXAMPLE_INSTANT } })

export const platformLinkedReply = z
  .strictObject({ ok: z.literal(true), platform_id: z.string(), linked_at: instant })
  .meta({ example: { ok: true, platform_id: '70000000000000001', linked_at: EXAMPLE_INSTANT } })

export const keySetReply = z
  .strictObject({
    keys: z.array(
      z.strictObject({
        kty: z.string(),
        crv: z.string(),
        x: z.string(),
        y: z.string(),
        kid: z.string(),
        alg: z.string(),
        use: z.literal('sig'),
      }),
    ),
  })
  .meta({
    example: {
      keys: [
        {
          kty: 'EC',
          crv: 'P-256',
          x: EXAMPLE_TEXT,
          y: EXAMPLE_TEXT,
          kid: '9d0c2a4e-7b1d-4f7e-8f6a-51c3f2b8e6d4',
          alg: 'ES256',
          use: 'sig',
        },
      ],
    },
  })
