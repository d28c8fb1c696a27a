/**
 * The body of an error answer, within ERROR_BYTES_MAX whatever was asked.
 *
 * Pure. Cut are long texts first, then lists, of which the first entries stay; `omitted` counts the violations that are
 * not described. What an error repeats of its request passes through here alone.
 */
import type { ErrorReply, Violation } from '#schemas/api/error.ts'
import { shownInput } from '#schemas/api/shown-input.ts'
import type { HttpError } from './http-error.ts'

/** Violations that one answer describes. */
export const VIOLATIONS_MAX = 20

/** Bytes of the body of an error. */
const ERROR_BYTES_MAX = 64 * 1024

const TEXT_MAX = 1_000
const STEP_MAX = 100
/** Entries of a list of a refusal, such as the rows of a file that are at fault. */
const LIST_MAX = 128

/** Writes the body of an error. */
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

/** A value of ours with its texts and lists cut. */
function cut(value: unknown, most: number): unknown {
  if (typeof value === 'string') return cutText(value, TEXT_MAX)
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.slice(0, most).map(one => cut(one, most))
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, cut(one, most)]))
}

const cutText = (text: string, longest: number): string =>
  text.length > longest ? `${text.slice(0, longest - 1)}\u2026` : text
