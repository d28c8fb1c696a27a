/**
 * Decides whether an attempt is done, failed, or retried and when, and which excerpt of its answer is stored.
 *
 * Pure: chance arrives as an argument. Rules: DECISIONS.md, "Webhooks": 2xx succeeds; 408, 409, 425, 429, 5xx, timeouts and
 * connection errors are retried after the pauses of RETRY_PAUSES_SECONDS, each +-20 percent, and not before the destination
 * wishes; any other status fails at once, but for the redirect of a script that google_sheets has run. Invariant: an
 * attempt that was cut off from our side counts for nothing. An excerpt of an answer has at most 1024 bytes of UTF-8, no control
 * characters and no text direction marks; it never holds the given secrets, or keys and signing secrets of this service, even when a
 * receiver echoes them.
 */
import type { PostResult } from '#infra/outbound/post.ts'
import { RETRY_PAUSES_SECONDS } from '#schemas/api/alert-triggered.ts'
import type { WebhookPlatform } from '#schemas/api/webhooks.ts'
import { retryAfterMs } from '#schemas/values/retry-after.ts'

export type AttemptOutcome =
  | { kind: 'succeeded'; httpStatus: number }
  | { kind: 'failed'; httpStatus: number | null; error: string }
  | { kind: 'retried'; httpStatus: number | null; error: string; delayMs: number }
  /** Cut off from our side: retried at once, without counting. */
  | { kind: 'interrupted'; error: string }

/** Share by which a pause may be shorter or longer. */
const JITTER = 0.2
/** google_sheets redirects there once the script has run. */
const SCRIPT_ANSWERS = 'https://script.googleusercontent.com'

const RETRYABLE = new Set([408, 409, 425, 429])

export const INTERRUPTED = 'The attempt was cut off on our side; whether it arrived is not known.'

const REFUSED = 'The host is, or resolves to, an address that webhooks may not reach.'

/**
 * Classifies an attempt.
 *
 * `failures` counts the attempts of this round that failed before it; `chance` is in [0, 1); `now` is in milliseconds.
 */
export function classifyAttempt(
  result: PostResult,
  context: { failures: number; chance: number; now: number; limitMs: number; platform: WebhookPlatform },
): AttemptOutcome {
  const again = (error: string, httpStatus: number | null, notBeforeMs = 0): AttemptOutcome => {
    const pauseMs = pauseAfter(context.failures + 1, context.chance)
    if (pauseMs === undefined) return { kind: 'failed', httpStatus, error }
    return { kind: 'retried', httpStatus, error, delayMs: Math.max(pauseMs, notBeforeMs) }
  }
  switch (result.kind) {
    case 'interrupted':
      return { kind: 'interrupted', error: INTERRUPTED }
    case 'refused':
      return { kind: 'failed', httpStatus: null, error: REFUSED }
    case 'timeout':
      return again(`No answer within ${context.limitMs / 1_000} seconds.`, null)
    case 'unreachable':
      return again(result.reason, null)
    case 'answered': {
      const { status } = result
      if ((status >= 200 && status < 300) || (context.platform === 'google_sheets' && hasRunScript(result))) {
        return { kind: 'succeeded', httpStatus: status }
      }
      const error = `The destination answered ${status}.`
      if (!RETRYABLE.has(status) && status < 500) return { kind: 'failed', httpStatus: status, error }
      const ofBody = context.platform === 'discord' ? retryAfterOf(result.excerpt) : undefined
      return again(error, status, retryAfterMs(ofBody ?? result.retryAfter, context.now))
    }
  }
}

/** The pause after the given failure, counted from 1; undefined when it was the last attempt. */
export function pauseAfter(failure: number, chance: number): number | undefined {
  const seconds = RETRY_PAUSES_SECONDS[failure - 1]
  return seconds === undefined ? undefined : Math.round(1_000 * seconds * (1 - JITTER + 2 * JITTER * chance))
}

const hasRunScript = ({ status, location }: Extract<PostResult, { kind: 'answered' }>): boolean =>
  status === 302 && URL.parse(location ?? '')?.origin === SCRIPT_ANSWERS

/** The seconds to wait in a body of Discord; undefined where it has none. */
function retryAfterOf(body: Buffer): string | undefined {
  try {
    return JSON.parse(body.toString()).retry_after?.toString()
  } catch {
    return undefined
  }
}

const EXCERPT_BYTES = 1_024
const CUT = '[cut]'

/** Keys and signing secrets of this service. */
const OWN_SECRETS = /(sk_live_(?:root|child)_|whsec_)[A-Za-z0-9_-]+/g
/** Controls but line feed, format characters (bidi among them), surrogates, private use, and U+FFFD. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\uFFFD]/gu

/** The text of an answer that may be stored and shown; null when nothing is left. */
export function safeExcerpt(bytes: Buffer, secrets: readonly string[]): string | null {
  let text = bytes.toString('utf8').replaceAll(/\r\n?/g, '\n').replaceAll('\t', ' ')
  text = text.replaceAll(UNSAFE, mark => (mark === '\n' ? mark : ''))
  for (const secret of secrets) if (secret.length >= 8) text = text.replaceAll(secret, CUT)
  text = text.replaceAll(OWN_SECRETS, CUT).trim()
  if (text === '') return null
  // Of a character that is cut U+FFFD is left, which the text has none of.
  return Buffer.from(text)
    .toString('utf8', 0, EXCERPT_BYTES)
    .replace(/\uFFFD+$/, '')
}
