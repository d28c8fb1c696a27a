/**
 * The routes of sign-in, sessions and the linked platform account.
 *
 * Writes through services/accounts. Invariant: a browser's steps are bound to it by a cookie that scripts and other
 * sites cannot use; tokens and codes are in the one answer that issues them. What is not configured is a 404 that
 * names the variables to set, and no other route depends on it.
 */
import type { Request } from 'express'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { HttpError } from '#infra/http/http-error.ts'
import { bytes } from '#infra/http/reply.ts'
import { ALL, json } from '#schemas/api/operation.ts'
import {
  callbackQuery,
  keySetReply,
  okReply,
  platformBegunReply,
  platformLinkedReply,
  refreshBody,
  sessionBody,
  sessionReply,
  signedInReply,
} from '#schemas/api/sign-in.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import {
  beginPlatformLink,
  beginSignIn,
  exchangeSignIn,
  finishPlatformLink,
  type PlatformScope,
  returnSignIn,
  SIGN_IN_LIFE_MS,
  type SignInScope,
  unlinkPlatform,
} from '#services/accounts/sign-in/commands.ts'
import { type ApiContext, originOf } from '../context.ts'

const GROUP = 'Sign-in'
const OPEN = { group: GROUP, tiers: undefined, budget: 'sign-in' } as const
const MANAGED = { group: GROUP, tiers: ALL, access: 'management' } as const
const RECENT = { group: GROUP, tiers: ALL, access: 'recent-session' } as const
const UNSET = 'SIGN_IN_NOT_CONFIGURED'
const SIGN_IN_COOKIE = 'marketlog_sign_in'
const PLATFORM_COOKIE = 'marketlog_platform'
const COOKIE_FORM = /^[A-Za-z0-9_-]{43}$/

export const signInRoutes = (api: ApiContext): Route[] => [...signIns(api), ...sessions(api), ...platformLinks(api)]

const scopeOf = ({ signIn }: ApiContext): SignInScope =>
  configured(signIn, 'MARKETLOG_OIDC_URL, MARKETLOG_OIDC_CLIENT_ID and MARKETLOG_SECRET_KEY')

const signIns = (api: ApiContext): Route[] => [
  defineRoute({
    ...OPEN,
    id: 'beginSignIn',
    method: 'get',
    path: '/account/login',
    summary: 'Begin a sign-in',
    description: 'Opened by a browser. It gets a cookie that every later step of this sign-in needs.',
    reply: { status: 302, description: 'To the identity provider.', headers: { Location: 'The provider.' } },
    errors: [UNSET, 'UPSTREAM_ERROR'],
    async handle({ response }) {
      const { url, browser } = await beginSignIn(scopeOf(api), api.now())
      const cookie = cookieOf(SIGN_IN_COOKIE, browser, api.baseUrl)
      const headers = ['Location', url, ...cookie, 'Cache-Control', 'no-store']
      return bytes(response, undefined, { status: 302, headers })
    },
  }),
  defineRoute({
    ...OPEN,
    id: 'finishSignIn',
    method: 'get',
    path: '/account/callback',
    summary: 'Return from the identity provider',
    description: 'Works once, within ten minutes, in the browser that began.',
    query: callbackQuery,
    reply: json('SignedInReply', signedInReply, 'A code for `POST /v1/account/session`, good for two minutes.'),
    errors: [UNSET, 'SIGN_IN_REFUSED', 'AUTH_ACCOUNT_DISABLED', 'UPSTREAM_ERROR'],
    async handle({ query: { state }, request }) {
      const back = { state, query: queryOf(request), browser: browserOf(request, SIGN_IN_COOKIE) }
      const { code, expiresAt, accountId } = await returnSignIn(scopeOf(api), back, api.now())
      return { code, expires_at: formatInstant(expiresAt), account_id: accountId }
    },
  }),
  defineRoute({
    ...OPEN,
    id: 'createSession',
    method: 'post',
    path: '/account/session',
    summary: 'Exchange a sign-in for a session',
    description:
      'Works once, in the browser that began. The access token is a JWT that acts as the root key on account routes.',
    body: sessionBody,
    reply: json(
      'SessionReply',
      sessionReply,
      'Tokens: the access token for 15 minutes, the refresh token for one use.',
    ),
    errors: [UNSET, 'SIGN_IN_REFUSED'],
    async handle({ body: { code }, request }) {
      const browser = browserOf(request, SIGN_IN_COOKIE)
      const address = api.clientOf(request)
      return exchangeSignIn(scopeOf(api), { code, browser, address }, api.now())
    },
  }),
]

const sessions = (api: ApiContext): Route[] => [
  defineRoute({
    ...OPEN,
    id: 'refreshSession',
    method: 'post',
    path: '/account/session/refresh',
    summary: 'Renew the tokens of a session',
    description: 'Each refresh token works once. The second use of one ends the session: somebody else holds a copy.',
    body: refreshBody,
    reply: json('SessionReply', sessionReply, 'New tokens; the old refresh token is used up.'),
    errors: [UNSET, 'AUTH_INVALID_SESSION'],
    handle: ({ body: { refresh_token }, request }) =>
      scopeOf(api).sessions.refresh(refresh_token, api.now(), api.clientOf(request)),
  }),
  defineRoute({
    ...MANAGED,
    id: 'deleteSession',
    method: 'delete',
    path: '/account/session',
    summary: 'Sign out',
    description: 'Ends the session whose access token asks, at once. A key has no session, which is a 404.',
    reply: json('OkReply', okReply, 'The session is over.'),
    errors: ['NOT_FOUND'],
    async handle({ credential: { accountId, sessionId } }) {
      if (sessionId === undefined) {
        throw new HttpError('NOT_FOUND', 'A key has no session; only a session can sign out.')
      }
      await scopeOf(api).sessions.revoke({ accountId, sessionId }, api.now())
      return { ok: true }
    },
  }),
  defineRoute({
    ...MANAGED,
    id: 'revokeAllSessions',
    method: 'post',
    path: '/account/session/revoke-all',
    summary: 'End every session of the account',
    description:
      'At once, the session that asks included, and with them what was begun before: sign-ins, links of a platform account, and the links of verification mails. Keys stay.',
    reply: json('OkReply', okReply, 'No session is open.'),
    errors: [UNSET],
    async handle(route) {
      await scopeOf(api).sessions.revokeAll(originOf(api, route), api.now())
      return { ok: true }
    },
  }),
  defineRoute({
    ...OPEN,
    id: 'listSessionKeys',
    method: 'get',
    path: '/.well-known/jwks.json',
    summary: 'Public keys of session tokens',
    description: 'A JSON Web Key Set. Keys change daily; ask again for a `kid` that is not known.',
    reply: json('KeySetReply', keySetReply, 'The keys with which tokens that are still good were signed.'),
    errors: [UNSET],
    async handle({ response }) {
      const keys = await scopeOf(api).sessions.publicKeys(api.now())
      return bytes(response, JSON.stringify({ keys }), { cache: 'max-age=300' })
    },
  }),
]

const platformOf = ({ platformSignIn }: ApiContext): PlatformScope =>
  configured(platformSignIn, 'MARKETLOG_PLATFORM_OPENID_URL')

const platformLinks = (api: ApiContext): Route[] => [
  defineRoute({
    ...RECENT,
    id: 'linkPlatform',
    method: 'post',
    path: '/account/platform',
    summary: 'Begin to link a platform account',
    description: 'Opened by a browser, which gets a cookie that the return needs. An existing link is replaced.',
    reply: json('PlatformBegunReply', platformBegunReply, 'Where the browser signs in to the platform.'),
    errors: [UNSET],
    async handle({ credential, request, response }) {
      const origin = originOf(api, { credential, request })
      const begun = await beginPlatformLink(platformOf(api), origin, api.now())
      const body = { url: begun.url, expires_at: formatInstant(begun.expiresAt) }
      const headers = cookieOf(PLATFORM_COOKIE, begun.browser, api.baseUrl)
      return bytes(response, JSON.stringify(body), { headers })
    },
  }),
  defineRoute({
    ...OPEN,
    id: 'finishPlatformLink',
    method: 'get',
    path: '/account/platform/callback',
    summary: 'Return from the platform',
    description: 'Works once, within ten minutes, in the browser that began.',
    query: callbackQuery,
    reply: json('PlatformLinkedReply', platformLinkedReply, 'The platform account is linked.'),
    errors: [UNSET, 'SIGN_IN_REFUSED', 'UPSTREAM_ERROR'],
    async handle({ query: { state }, request }) {
      const back = {
        state,
        query: queryOf(request),
        browser: browserOf(request, PLATFORM_COOKIE),
        address: api.clientOf(request),
      }
      const { platformId, linkedAt } = await finishPlatformLink(platformOf(api), back, api.now())
      return { ok: true, platform_id: platformId, linked_at: formatInstant(linkedAt) }
    },
  }),
  defineRoute({
    ...RECENT,
    id: 'unlinkPlatform',
    method: 'delete',
    path: '/account/platform',
    summary: 'Unlink the platform account',
    description: 'What was imported stays.',
    reply: json('OkReply', okReply, 'No platform account is linked.'),
    errors: ['NOT_FOUND'],
    async handle(route) {
      await unlinkPlatform(api, originOf(api, route), api.now())
      return { ok: true }
    },
  }),
]

function configured<T>(scope: T | undefined, variables: string): T {
  if (scope) return scope
  throw new HttpError('SIGN_IN_NOT_CONFIGURED', `This sign-in is not configured here; set ${variables}.`)
}

/** Lax, so that it is sent when the provider redirects the browser back. */
function cookieOf(name: string, value: string, baseUrl: string): string[] {
  const secure = baseUrl.startsWith('https:') ? '; Secure' : ''
  return ['Set-Cookie', `${name}=${value}; Path=/; Max-Age=${SIGN_IN_LIFE_MS / 1000}; HttpOnly; SameSite=Lax${secure}`]
}

/** The browser's cookie since it began; a text that matches no sign-in when there is none. */
function browserOf(request: Request, name: string): string {
  for (const part of (request.headers.cookie ?? '').split(';')) {
    const [key, value = ''] = part.trim().split('=', 2)
    if (key === name && COOKIE_FORM.test(value)) return value
  }
  return ''
}

function queryOf({ url }: Request): string {
  const from = url.indexOf('?')
  return from < 0 ? '' : url.slice(from + 1)
}
