/**
 * The header fields RateLimit-Policy and RateLimit: which quotas there are, and what is left of them.
 *
 * Pure. Source: draft-ietf-httpapi-ratelimit-headers-10, written as lists of structured fields (RFC 9651).
 */

export interface Allowance {
  quota: number
  /** Seconds for which it is given; undefined for one of what is open at a time. */
  windowSeconds: number | undefined
  remaining: number
  /** Seconds until there is more of it. */
  resetSeconds: number
}

export interface ExceededLimit extends Allowance {
  name: string
}

/** A quota of which nothing is left. */
export const exceededLimit = (
  name: string,
  quota: number,
  resetSeconds: number,
  windowSeconds?: number,
): ExceededLimit => ({ name, quota, windowSeconds, remaining: 0, resetSeconds })

/** Structured fields know no larger integer. */
const INTEGER_MAX = 999_999_999_999_999

/**
 * Both fields, names and values alternating; of a refusal RateLimit has what refused it alone. Names are letters and hyphens. Every
 * answer to a key has them: 0.4 us, by maps of entries 1.1.
 */
export function rateLimitFields(allowances: Readonly<Record<string, Allowance>>, exceeded?: ExceededLimit): string[] {
  const all = exceeded ? { ...allowances, [exceeded.name]: exceeded } : allowances
  let policies = ''
  let limits = ''
  for (const name in all) {
    const comma = policies === '' ? '' : ', '
    policies += comma + policyOf(name, all[name] as Allowance)
    limits += comma + limitOf(name, all[name] as Allowance)
  }
  return ['RateLimit-Policy', policies, 'RateLimit', exceeded ? limitOf(exceeded.name, exceeded) : limits]
}

function policyOf(name: string, { quota, windowSeconds }: Allowance): string {
  const window = windowSeconds === undefined ? 'qu="concurrent-requests"' : `w=${windowSeconds}`
  return `"${name}";q=${Math.min(quota, INTEGER_MAX)};${window}`
}

const limitOf = (name: string, { remaining, resetSeconds }: Allowance): string =>
  `"${name}";r=${Math.min(remaining, INTEGER_MAX)};t=${resetSeconds}`
