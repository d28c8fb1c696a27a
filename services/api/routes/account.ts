/** Rules: DECISIONS.md, "Keys and sessions". The GET of a page changes nothing: mail scanners follow links. */
import type { Response } from 'express'
import { definePage, defineRoute, type Endpoint, type Route } from '#infra/http/define-route.ts'
import { HttpError } from '#infra/http/http-error.ts'
import { bytes, type Sent } from '#infra/http/reply.ts'
import { type RawQuery, rawQuery } from '#infra/http/request.ts'
import { ALL, json, type Reply } from '#schemas/api/operation.ts'
import { accountReply, emailBody, okReply, pageReply, verifyQuery } from '#schemas/api/sign-in.ts'
import { recordAction, recordAudit } from '#services/accounts/audit/commands.ts'
import {
  lockForOwner,
  sendVerification,
  setAlertEmails,
  useLink,
  warnFormerAddress,
} from '#services/accounts/commands.ts'
import { readAccount, UNSUBSCRIBE_PATH } from '#services/accounts/reader.ts'
import { type ApiContext, originOf } from '../context.ts'

const GROUP = 'Sign-in'
const LINK = {
  group: GROUP,
  tiers: undefined,
  budget: 'sign-in',
  path: '/account/email/verify',
  query: verifyQuery,
} as const

const page = (description: string): Reply<string> => {
  const example = pageReply.meta()?.example
  return { status: 200, type: 'text/html', name: 'Page', schema: pageReply, description, example }
}

export const accountRoutes = (api: ApiContext): Route[] => [...ownRoutes(api), ...linkRoutes(api)]

const ownRoutes = (api: ApiContext): Route[] => [
  defineRoute({
    group: GROUP,
    tiers: ALL,
    access: 'account',
    id: 'getAccount',
    method: 'get',
    path: '/account',
    summary: 'The account of the caller',
    description: 'Tier, e-mail address and linked platform account.',
    reply: json('AccountReply', accountReply, 'The account.'),
    handle: ({ credential }) => readAccount(api.database, credential.accountId),
  }),
  defineRoute({
    group: GROUP,
    tiers: ALL,
    access: 'recent-session',
    id: 'sendEmailVerification',
    method: 'post',
    path: '/account/email',
    summary: 'Confirm an e-mail address',
    description:
      'Sends a one-time link, good for a day. A verified address stays until the new one is confirmed, and is told then.',
    body: emailBody,
    reply: json('OkReply', okReply, 'The mail is on its way.'),
    async handle({ body: { email }, credential, request }) {
      const { database, mail, now } = api
      if (!mail) {
        const detail = 'No mail can be sent here; set MARKETLOG_SMTP_URL and MARKETLOG_SECRET_KEY.'
        throw new HttpError('SERVICE_UNAVAILABLE', detail)
      }
      const origin = originOf(api, { credential, request })
      await database.transaction(async query => {
        await lockForOwner(query, origin)
        // Not before the lock: mails of requests that held it are counted by their times.
        const at = now()
        await sendVerification(query, mail, { accountId: origin.accountId, email, now: at })
        await recordAction(query, origin, { kind: 'email.change_requested', at })
      })
      return { ok: true }
    },
  }),
]

const linkRoutes = ({ database, mail, now, clientOf }: ApiContext): Route[] => [
  defineRoute({
    ...LINK,
    id: 'showEmailVerification',
    method: 'get',
    summary: 'Open the link of a verification mail',
    description: 'A page with a button that confirms the address. It changes nothing: mail scanners follow links.',
    reply: page('A page.'),
    handle: ({ query: { token }, response }) =>
      sendPage(response, 'Confirm your e-mail address', postButton(`token=${token}`, 'Confirm this address')),
  }),
  defineRoute({
    ...LINK,
    id: 'verifyEmail',
    method: 'post',
    summary: 'Confirm an e-mail address by the token of its link',
    description: 'What the button of that page sends. Works once.',
    reply: page('The address is the account’s.'),
    errors: ['NOT_FOUND'],
    async handle({ query: { token }, request, response }) {
      const at = now()
      await database.transaction(async query => {
        const { former, accountId } = await useLink(query, token, at)
        await recordAudit(query, { kind: 'email.changed', at, accountId, address: clientOf(request) })
        if (mail && former !== undefined) await warnFormerAddress(query, mail, former)
      })
      return sendPage(response, 'Your e-mail address is confirmed', '')
    },
  }),
]

/**
 * The link at the end of alert mails: a page that asks, and the POST that acts. Its signed token names the account. The POST is what
 * RFC 8058 (one-click) sends and what the page's button sends, and may be repeated.
 */
export function unsubscribePages({ database, unsubscribeLinks, now }: ApiContext): Endpoint[] {
  const path = UNSUBSCRIBE_PATH.replace('/v1', '')
  const holderOf = ({ token }: RawQuery): { token: string; accountId: string } => {
    const accountId = typeof token === 'string' ? unsubscribeLinks?.accountOf(token) : undefined
    if (accountId === undefined) throw new HttpError('NOT_FOUND', 'This link is not valid.')
    return { token: String(token), accountId }
  }
  return [
    definePage('get', path, 'sign-in', ({ request, response }) => {
      const { token } = holderOf(rawQuery(request))
      return sendPage(response, 'Alerts by e-mail', button(token, 'off', 'Send me no alerts by e-mail any more'))
    }),
    definePage('post', path, 'sign-in', async ({ request, response }) => {
      const query = rawQuery(request)
      const { token, accountId } = holderOf(query)
      const isOn = query.set === 'on'
      await setAlertEmails(database.rows, accountId, { isOn, now: now() })
      const other = isOn ? button(token, 'off', 'Switch them off') : button(token, 'on', 'Switch them on again')
      return sendPage(response, `Alerts by e-mail are ${isOn ? 'on' : 'off'}`, other)
    }),
  ]
}

/** A token that was accepted holds nothing that HTML could take for markup. */
const button = (token: string, set: 'on' | 'off', label: string): string =>
  postButton(`token=${token}&amp;set=${set}`, label)

/** A button that posts to the path of its page. Neither text may hold what HTML takes for markup. */
const postButton = (query: string, label: string): string =>
  `<form method="post" action="?${query}"><button type="submit">${label}</button></form>`

function sendPage(response: Response, title: string, content: string): Sent {
  const head = `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>${title}</title></head>`
  const page = `${head}<body><h1>${title}</h1>${content}</body></html>`
  return bytes(response, page, { type: 'text/html; charset=utf-8' })
}
