/**
 * Sends mails over SMTP: the only room that loads the library for it.
 *
 * Opens connections to the one server of the environment and to no other. Invariant: a send ends within a limit and never
 * throws for what the server answers: it returns whether another try may help. Without a server every mail fails with
 * a reason that names what to set. Errors are reported by code; the server's text, which may repeat the mail, is not kept.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { createTransport, type Transporter } from 'nodemailer'

export interface Mail {
  to: string
  subject: string
  text: string
  html?: string
  /** The same for every try of the same mail, so that a mailbox can recognize a repeat. */
  messageId?: string
  headers?: Record<string, string>
}

export type MailOutcome =
  | { kind: 'sent' }
  /** `isFinal`: another try cannot help. */
  | { kind: 'failed'; isFinal: boolean; error: string }

export interface Mailer {
  /** Resolves when the server has accepted the mail, or has not within the limit. */
  send(mail: Mail): Promise<MailOutcome>
  close(): void
}

const CONNECT_LIMIT_MS = 5_000
const IDLE_LIMIT_MS = 10_000
const SEND_LIMIT_MS = 20_000
const CONNECTIONS = 3

const UNSET = 'No mail server is configured: set MARKETLOG_SMTP_URL (and MARKETLOG_MAIL_FROM).'

const LATE: MailOutcome = { kind: 'failed', isFinal: false, error: 'The mail server did not answer in time.' }
const AWAY = 'The mail server could not be reached, or the connection to it broke.'

const REASONS: Record<string, string> = {
  EAUTH: 'The mail server refused the credentials of MARKETLOG_SMTP_URL.',
  ECONNECTION: AWAY,
  ESOCKET: AWAY,
  EDNS: 'The name of the mail server could not be resolved.',
  ETLS: 'TLS with the mail server could not be agreed.',
  ETIMEDOUT: 'The mail server did not answer in time.',
}

/**
 * Opens the mailer; it connects when the first mail comes. `smtpUrl` is `smtp://user:password@host:587` or `smtps://...`; undefined: no
 * mail leaves. Throws when it is invalid.
 */
export function openMailer({ smtpUrl, from }: { smtpUrl: string | undefined; from: string }): Mailer {
  if (!smtpUrl) {
    return { send: async () => ({ kind: 'failed', isFinal: true, error: UNSET }), close: () => undefined }
  }
  const transport = createTransport({
    ...serverOf(smtpUrl),
    pool: true,
    maxConnections: CONNECTIONS,
    connectionTimeout: CONNECT_LIMIT_MS,
    greetingTimeout: CONNECT_LIMIT_MS,
    dnsTimeout: CONNECT_LIMIT_MS,
    socketTimeout: IDLE_LIMIT_MS,
    disableFileAccess: true,
    disableUrlAccess: true,
  })
  return {
    async send(mail) {
      const ended = new AbortController()
      const late = pause(SEND_LIMIT_MS, LATE, { signal: ended.signal })
      return Promise.race([sendBy(transport, { ...mail, from }), late]).finally(() => ended.abort())
    },
    close: () => transport.close(),
  }
}

function serverOf(text: string): object {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !['smtp:', 'smtps:'].includes(url.protocol) || url.hostname === '') {
    throw new Error('MARKETLOG_SMTP_URL must be smtp://[user:password@]host[:port] or smtps://...')
  }
  const secure = url.protocol === 'smtps:'
  const auth = url.username && {
    auth: { user: decodeURIComponent(url.username), pass: decodeURIComponent(url.password) },
  }
  return { host: url.hostname, port: Number(url.port || (secure ? 465 : 587)), secure, ...(auth || {}) }
}

async function sendBy(transport: Transporter, mail: Mail & { from: string }): Promise<MailOutcome> {
  try {
    await transport.sendMail(mail)
    return { kind: 'sent' }
  } catch (error) {
    return failureOf(error as { code?: string; responseCode?: number })
  }
}

/**
 * Answers of class 5 about the mail are final (RFC 5321, 4.2.1), as is a mail without a valid address; all else may
 * pass, wrong credentials included: those are corrected, and the mail is still wanted.
 */
function failureOf({ code = '', responseCode }: { code?: string; responseCode?: number }): MailOutcome {
  const reason = REASONS[code]
  if (reason !== undefined) return { kind: 'failed', isFinal: false, error: reason }
  const isFinal = responseCode === undefined ? code === 'EENVELOPE' : responseCode >= 500
  const answer = responseCode === undefined ? '' : ` with code ${responseCode}`
  return { kind: 'failed', isFinal, error: `The mail server refused the mail${answer}.` }
}
