/** Headers of every answer: those of roles, and those of the host that refuses what is no request. */
import type { IncomingMessage } from 'node:http'

/** Every header of the API's own that a script may want to read. */
const EXPOSED = [
  ...['X-Request-Id', 'Retry-After', 'ETag', 'Content-Disposition', 'Allow', 'Location', 'WWW-Authenticate'],
  ...['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset', 'X-RateLimit-Tier'],
  ...['RateLimit-Policy', 'RateLimit', 'X-Snapshot-Timestamp', 'X-Snapshot-Currency', 'X-Snapshot-Total'],
  'X-Export-Parts',
].join(', ')

/** Names and values alternating. Pages load nothing and post to this host alone; nothing may be framed or sniffed. */
export const FIXED_HEADERS: readonly string[] = [
  ...['X-Content-Type-Options', 'nosniff', 'Referrer-Policy', 'no-referrer'],
  ...['Content-Security-Policy', "default-src 'none'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"],
  ...['Access-Control-Allow-Origin', '*', 'Access-Control-Expose-Headers', EXPOSED],
]

const REQUEST_ID = /^[A-Za-z0-9._-]{1,64}$/
/** Ids are logged, and a key may have been put there by mistake. */
const KEY_START = /sk_live_/

/** The client's own request id where it is harmless, else a new one. */
export function requestIdOf({ headers }: Pick<IncomingMessage, 'headers'>): string {
  const id = headers['x-request-id']
  const isHarmless = typeof id === 'string' && REQUEST_ID.test(id) && !KEY_START.test(id)
  return isHarmless ? id : crypto.randomUUID()
}
