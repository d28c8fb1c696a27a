/**
 * The one error of the interface, and the body of its answer, within ERROR_BYTES_MAX whatever the request was.
 *
 * Pure. Cut are long texts first, then lists, of which the first entries stay; `omitted` counts the violations that are
 * not described. All that an error repeats of its request passes through here.
 */
import { ERROR_STATUS, type ErrorCode, type ErrorReply, type Violation } from '#schemas/api/error.ts'
import type { ExceededLimit } from '#schemas/api/rate-limit.ts'
import { shownInput } from '#schemas/api/shown-input.ts'

export class HttpError extends Error {
  readonly code: ErrorCode
  readonly detail: string | Violation[]
  /** Further headers, names and values alternating. */
  readonly headers: readonly string[]
  /** Of a 429: what RateLimit and Retry-After are about. */
  readonly exceeded: ExceededLimit | undefined
  /** Violations beside those of `detail`. */
  readonly omitted: number
  /** Of the body, beside code and detail. */
  readonly members: object

  constructor(
    code: ErrorCode,
    detail: string | Violation[],
    options: {
      headers?: string[]
      exceeded?: ExceededLimit
      omitted?: number
      members?: object
      cause?: unknown
    } = {},
  ) {
    super(`${code}: ${typeof detail === 'string' ? detail : 'the request is not valid'}`, { cause: options.cause })
    this.code = code
    this.detail = detail
    const { exceeded, headers = [] } = options
    this.headers = [
      ...(exceeded ? ['Retry-After', String(exceeded.resetSeconds)] : []),
      // Each 401 names a way to authenticate (RFC 9110, 15.5.2).
      ...(ERROR_STATUS[code] === 401 ? ['WWW-Authenticate', 'Bearer'] : []),
      ...headers,
    ]
    this.exceeded = exceeded
    this.omitted = options.omitted ?? 0
    this.members = options.members ?? {}
  }
}

export const VIOLATIONS_MAX = 20

const ERROR_BYTES_MAX = 64 * 1024

const TEXT_MAX = 1_000
const STEP_MAX = 100
/** Entries of a list of a refusal, such as the rows of a file that are at fault. */
const LIST_MAX = 128

export function errorText({ code, detail, omitted, members }: HttpError): string {
  for (let most = LIST_MAX; ; most = Math.floor(most / 2)) {
    const reply = { code, ...shownDetail(detail, omitted, most), ...(cut(members, most) as object) } as ErrorReply
    const text = JSON.stringify(reply)
    if (most === 0 || Buffer.byteLength(text) <= ERROR_BYTES_MAX) return text
  }
}

function shownDetail(detail: HttpError['detail'], omitted: number, most: number): object {
  if (typeof detail === 'string') return { detail: cutText(detail, TEXT_MAX) }
  const shown = detail.slice(0, Math.max(Math.min(most, VIOLATIONS_MAX), 1)).map(shownViolation)
  const left = omitted + detail.length - shown.length
  return { detail: shown, ...(left > 0 && { omitted: left }) }
}

const shownViolation = ({ loc, msg, input, ...rest }: Violation): Violation => ({
  ...rest,
  loc: loc.map(step => (typeof step === 'string' ? String(shownInput(step.slice(0, STEP_MAX))) : step)),
  msg: cutText(msg, TEXT_MAX),
  input: shownInput(input),
})

function cut(value: unknown, most: number): unknown {
  if (typeof value === 'string') return cutText(value, TEXT_MAX)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.slice(0, most).map(one => cut(one, most))
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, cut(one, most)]))
}

const cutText = (text: string, longest: number): string =>
  text.length > longest ? `${text.slice(0, longest - 1)}\u2026` : text
