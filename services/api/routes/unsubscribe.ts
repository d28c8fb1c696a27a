/**
 * The link at the end of alert mails: a page that asks, and the POST that acts.
 *
 * Needs no key: the signed token names the account. Writes through services/accounts. Invariant: a GET changes nothing; the POST is
 * what RFC 8058 (one-click) sends and what the page's button sends, and may be repeated.
 */
import { definePage, type Endpoint } from '#infra/http/define-route.ts'
import { HttpError } from '#infra/http/http-error.ts'
import { type RawQuery, rawQuery } from '#infra/http/request.ts'
import type { Database } from '#infra/postgres/pool.ts'
import { setAlertEmails } from '#services/accounts/commands.ts'
import { UNSUBSCRIBE_PATH, type UnsubscribeLinks } from '#services/accounts/reader.ts'
import { postButton, sendPage } from '../pages.ts'

/** What the link needs. */
export interface UnsubscribeNeeds {
  database: Database
  /** Undefined without a key of the environment. */
  unsubscribeLinks: UnsubscribeLinks | undefined
  /** Milliseconds since the epoch. */
  now: () => number
}

const PATH = UNSUBSCRIBE_PATH.replace('/v1', '')

/** The page and what its button posts to. */
export function unsubscribePages({ database, unsubscribeLinks, now }: UnsubscribeNeeds): Endpoint[] {
  const holderOf = ({ token }: RawQuery): { token: string; accountId: string } => {
    const accountId = typeof token === 'string' ? unsubscribeLinks?.accountOf(token) : undefined
    if (accountId === undefined) throw new HttpError('NOT_FOUND', 'This link is not valid.')
    return { token: String(token), accountId }
  }
  return [
    definePage('get', PATH, 'sign-in', ({ request, response }) => {
      const { token } = holderOf(rawQuery(request))
      return sendPage(response, 'Alerts by e-mail', button(token, 'off', 'Send me no alerts by e-mail any more'))
    }),
    definePage('post', PATH, 'sign-in', async ({ request, response }) => {
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
