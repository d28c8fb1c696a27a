/**
 * The routes of an account: its record, and its e-mail address.
 *
 * Rules: DECISIONS.md, "Keys and sessions". Writes through services/accounts.
 */
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { HttpError } from '#infra/http/http-error.ts'
import type { Database } from '#infra/postgres/pool.ts'
import { ALL, json, type Reply } from '#schemas/api/operation.ts'
import { accountReply, emailBody, okReply, pageReply, verifyQuery } from '#schemas/api/sign-in.ts'
import { recordAction, recordAudit } from '#services/accounts/audit/commands.ts'
import {
  lockForOwner,
  type MailScope,
  sendVerification,
  useLink,
  warnFormerAddress,
} from '#services/accounts/commands.ts'
import { readAccount } from '#services/accounts/reader.ts'
import { type AuditNeeds, originOf } from '../audit-origin.ts'
import { postButton, sendPage } from '../pages.ts'

/** What the routes of an account need. */
export interface AccountNeeds extends AuditNeeds {
  database: Database
  /** Undefined: mail is not configured. */
  mail: MailScope | undefined
  /** Milliseconds since the epoch. */
  now: () => number
}

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

/** The routes. */
export const accountRoutes = (needs: AccountNeeds): Route[] => [...ownRoutes(needs), ...linkRoutes(needs)]

const ownRoutes = ({ database, mail, now, clientOf }: AccountNeeds): Route[] => [
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
    errors: [],
    handle: ({ credential }) => readAccount(database, credential.accountId),
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
    errors: [],
    async handle({ body: { email }, credential, request }) {
      if (!mail) {
        const detail = 'No mail can be sent here; set MARKETLOG_SMTP_URL and MARKETLOG_SECRET_KEY.'
        throw new HttpError('SERVICE_UNAVAILABLE', detail)
      }
      const origin = originOf({ clientOf }, { credential, request })
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

const linkRoutes = ({ database, mail, now, clientOf }: AccountNeeds): Route[] => [
  defineRoute({
    ...LINK,
    id: 'showEmailVerification',
    method: 'get',
    summary: 'Open the link of a verification mail',
    description: 'A page with a button that confirms the address. It changes nothing: mail scanners follow links.',
    reply: page('A page.'),
    errors: [],
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
