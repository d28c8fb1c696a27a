/**
 * Signs what a destination gets.
 *
 * Invariant: the signature is the lower-case hex HMAC-SHA256 of `timestamp.body`, keyed by the secret's text as it was shown
 * (DECISIONS.md, "Webhooks"); it covers the very bytes that are sent.
 */
import { createHmac } from 'node:crypto'

/** Signature of a body; `timestamp` is in Unix seconds. */
export const signatureOf = (secret: string, timestamp: number, body: string): string =>
  createHmac('sha256', secret).update(`${timestamp}.${body}`).digest('hex')
