/**
 * The routes of sign-in, sessions, e-mail addresses and the linked platform account.
 *
 * Writes through services/accounts. Invariant: a browser's steps are bound to it by a cookie that scripts and other
 * sites cannot use; tokens and codes are in the one answer that issues them. What is not configured is a 404 that
 * names the variables to set, and no other route depends on it.
 */
import type { Request, Response, Router } from 'express'
import { callbackQuery, emailBody, refreshBody, sessionBody, verifyQuery } from '#schemas/api/sign-in.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import { sendVerification, useLink } from '#services/accounts/commands.ts'
import { readAccount } from '#services/accounts/reader.ts'
import type { SessionTokens } from '#services/accounts/sessions/commands.ts'
import {
  beginPlatformLink,
  beginSignIn,
  exchangeSignIn,
  finishPlatformLink,
  returnSignIn,
  SIGN_IN_LIFE_MS,
  unlinkPlatform,
} from '#services/accounts/sign-in/commands.ts'
import { parseBody, readBody } from '../body.ts'
import { ApiError } from '../errors.ts'
import { credentialOf, type Guard } from '../guard.ts'
import type { ApiParts } from '../parts.ts'
import { send, sendDocument, sendEmpty } from '../reply.ts'
import { parse } from '../request.ts'

const EVERYBODY = ['free', 'starter', 'pro', 'quant'] as const
const SIGN_IN_COOKIE = 'marketlog_sign_in'
const PLATFORM_COOKIE = 'marketlog_platform'
const JSON_TYPE = 'application/json; charset=utf-8'
const COOKIE_FORM = /^[A-Za-z0-9_-]{43}$/

/** Adds the routes. */
export function addSignInRoutes(router: Router, guard: Guard, parts: ApiParts): void {
  addSessionRoutes(router, guard, parts)
  addAddressRoutes(router, guard, parts)
  addPlatformRoutes(router, guard, parts)
}

function addSessionRoutes(router: Router, { management, withoutKey }: Guard, parts: ApiParts): void {
  const { now, baseUrl } = parts
  const scope = () => configured(parts.signIn, 'MARKETLOG_OIDC_URL, MARKETLOG_OIDC_CLIENT_ID and MARKETLOG_SECRET_KEY')

  router.get('/account/login', withoutKey, async (_request, response) => {
    const { url, browser } = await beginSignIn(scope(), now())
    const cookie = cookieOf(SIGN_IN_COOKIE, browser, baseUrl)
    sendEmpty(response, 302, ['Location', url, ...cookie, 'Cache-Control', 'no-store', 'Content-Length', '0'])
  })
  router.get('/account/callback', withoutKey, async (request, response) => {
    const { state } = parse(callbackQuery, request)
    const back = { state, query: queryOf(request), browser: browserOf(request, SIGN_IN_COOKIE) }
    const { code, expiresAt, accountId } = await returnSignIn(scope(), back, now())
    answer(response, { code, expires_at: formatInstant(expiresAt), account_id: accountId })
  })
  router.post('/account/session', withoutKey, readBody, async (request, response) => {
    const { code } = parseBody(sessionBody, request)
    const browser = browserOf(request, SIGN_IN_COOKIE)
    answer(response, sessionOf(await exchangeSignIn(scope(), { code, browser }, now())))
  })
  router.post('/account/session/refresh', withoutKey, readBody, async (request, response) => {
    const { refresh_token } = parseBody(refreshBody, request)
    answer(response, sessionOf(await scope().sessions.refresh(refresh_token, now())))
  })
  router.delete('/account/session', management(...EVERYBODY), async (_request, response) => {
    const { sessionId } = credentialOf(response)
    if (sessionId === undefined) throw new ApiError('NOT_FOUND', 'A key has no session; only a session can sign out.')
    await scope().sessions.revoke(sessionId, now())
    answer(response, { ok: true })
  })
  router.get('/.well-known/jwks.json', withoutKey, async (_request, response) => {
    const keys = await scope().sessions.publicKeys(now())
    sendDocument(response, JSON_TYPE, JSON.stringify({ keys }), [])
  })
}

function addAddressRoutes(router: Router, { account, management, withoutKey }: Guard, parts: ApiParts): void {
  const { database, now } = parts

  router.get('/account', account(...EVERYBODY), async (_request, response) => {
    const { createdAt, isEmailVerified, platformId, ...record } = await readAccount(
      database,
      credentialOf(response).accountId,
    )
    const created_at = formatInstant(createdAt)
    answer(response, { ...record, created_at, email_verified: isEmailVerified, platform_id: platformId })
  })
  router.post('/account/email', management(...EVERYBODY), readBody, async (request, response) => {
    const { email } = parseBody(emailBody, request)
    const { mail } = parts
    if (!mail) {
      const detail = 'No mail can be sent here; set MARKETLOG_SMTP_URL and MARKETLOG_SECRET_KEY.'
      throw new ApiError('SERVICE_UNAVAILABLE', detail)
    }
    const { accountId } = credentialOf(response)
    await database.transaction(query => sendVerification(query, mail, { accountId, email, now: now() }))
    answer(response, { ok: true })
  })
  router.get('/account/email/verify', withoutKey, async (request, response) => {
    const { token } = parse(verifyQuery, request)
    const { email } = await database.transaction(query => useLink(query, token, now()))
    answer(response, { ok: true, email })
  })
}

function addPlatformRoutes(router: Router, { management, withoutKey }: Guard, parts: ApiParts): void {
  const { database, now, baseUrl } = parts
  const scope = () => configured(parts.platformSignIn, 'MARKETLOG_PLATFORM_OPENID_URL')

  router.post('/account/platform', management(...EVERYBODY), async (_request, response) => {
    const begun = await beginPlatformLink(scope(), credentialOf(response).accountId, now())
    const body = { url: begun.url, expires_at: formatInstant(begun.expiresAt) }
    answer(response, body, cookieOf(PLATFORM_COOKIE, begun.browser, baseUrl))
  })
  router.get('/account/platform/callback', withoutKey, async (request, response) => {
    const { state } = parse(callbackQuery, request)
    const back = { state, query: queryOf(request), browser: browserOf(request, PLATFORM_COOKIE) }
    const { platformId, linkedAt } = await finishPlatformLink(scope(), back, now())
    answer(response, { ok: true, platform_id: platformId, linked_at: formatInstant(linkedAt) })
  })
  router.delete('/account/platform', management(...EVERYBODY), async (_request, response) => {
    await unlinkPlatform(database, credentialOf(response).accountId)
    answer(response, { ok: true })
  })
}

function configured<T>(scope: T | undefined, variables: string): T {
  if (scope) return scope
  throw new ApiError('SIGN_IN_NOT_CONFIGURED', `This sign-in is not configured here; set ${variables}.`)
}

const sessionOf = ({ accessToken, expiresInSeconds, refreshToken, expiresAt }: SessionTokens) => ({
  ...{ access_token: accessToken, token_type: 'Bearer', expires_in: expiresInSeconds },
  ...{ refresh_token: refreshToken, session_expires_at: formatInstant(expiresAt) },
})

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

const answer = (response: Response, body: unknown, headers: readonly string[] = []): void =>
  send(response, 200, JSON.stringify(body), headers)
