/** Retry-After (RFC 9110, 10.2.3) as other servers send it. */
import type { Instant } from './instant.ts'
import { HOUR_MS } from './instant.ts'

/** A longer wait is not kept. */
const MOST_MS = HOUR_MS

/** The three forms of an HTTP date (RFC 9110, 5.6.7); the one that ends in its year names no zone. */
const HTTP_DATE = /^[a-z]{3,9},? .*\d\d:\d\d:\d\d( gmt| \d{4})$/i

/** Milliseconds to wait from `now`: seconds, rounded up, or until a date; at most an hour, 0 for anything else. */
export function retryAfterMs(header: string | null | undefined, now: Instant): number {
  const text = header?.trim() ?? ''
  const date = HTTP_DATE.test(text) ? Date.parse(text.replace(/\d$/, '$& GMT')) - now : 0
  const ms = /^\d+(\.\d+)?$/.test(text) ? Math.ceil(Number(text)) * 1_000 : date
  return Math.min(Math.max(ms || 0, 0), MOST_MS)
}
