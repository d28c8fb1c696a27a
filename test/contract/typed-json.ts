/**
 * Holds JSON texts against shapes: every member, no other, each of its type to the letter.
 *
 * Numbers are judged by their text, so that `10.0` is no integer, as it is none to strict clients.
 */
import type { Shape } from './reply-shapes.ts'

/** A number as it was written. */
class NumberText {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

/** What was found wrong, and the paths that held a value. */
export interface Findings {
  faults: string[]
  seen: Set<string>
}

type Reviver = (key: string, value: unknown, context: { source: string }) => unknown

/** Holds a text against a shape; paths begin with `root`. */
export function checkJson(text: string, shape: Shape, root: string, findings: Findings): void {
  const keepNumbers: Reviver = (_key, value, { source }) => (typeof value === 'number' ? new NumberText(source) : value)
  check(JSON.parse(text, keepNumbers as never), shape, root, findings)
}

/** The paths of a shape that some reply must hold a value at: neither they nor what contains them may be null or absent. */
export function* neededPathsOf(shape: Shape, path: string): Iterable<string> {
  if (typeof shape === 'string') {
    if (!shape.endsWith('?')) yield path
  } else if (Array.isArray(shape)) yield* neededPathsOf(shape[0], `${path}[]`)
  else
    for (const [name, own] of Object.entries(shape))
      if (!name.endsWith('?')) yield* neededPathsOf(own, `${path}.${name}`)
}

const pathOf = (path: string, name: string): string => (name === '?' ? path : `${path}.${name.replace(/\?$/, '')}`)

function check(value: unknown, shape: Shape, path: string, findings: Findings): void {
  if (typeof shape === 'string') checkType(value, shape, path, findings)
  else if (Array.isArray(shape)) {
    if (!Array.isArray(value)) findings.faults.push(`${path}: no array`)
    else for (const one of value) check(one, shape[0], `${path}[]`, findings)
  } else checkMembers(value, shape as Record<string, Shape>, path, findings)
}

function checkMembers(value: unknown, members: Record<string, Shape>, path: string, findings: Findings): void {
  const { faults } = findings
  const isObject =
    typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof NumberText)
  if (members['?'] !== undefined) {
    if (value !== null) check(value, members['?'], path, findings)
  } else if (!isObject) faults.push(`${path}: no object`)
  else if (members['*'] !== undefined) {
    for (const one of Object.values(value)) check(one, members['*'], `${path}.*`, findings)
  } else {
    const names = new Set(Object.keys(members).map(name => name.replace(/\?$/, '')))
    for (const name of Object.keys(value))
      if (!names.has(name)) faults.push(`${path}: holds ${name}, which nothing names`)
    for (const [name, own] of Object.entries(members)) {
      const plain = name.replace(/\?$/, '')
      if (Object.hasOwn(value, plain))
        check((value as Record<string, unknown>)[plain], own, pathOf(path, name), findings)
      else if (!name.endsWith('?')) faults.push(`${path}: lacks ${plain}`)
    }
  }
}

function checkType(value: unknown, type: string, path: string, { faults, seen }: Findings): void {
  const [plain, isNullable] = type.endsWith('?') ? [type.slice(0, -1), true] : [type, false]
  if (value === null && isNullable) return
  if (!isOf(value, plain))
    faults.push(`${path}: ${value instanceof NumberText ? value.text : JSON.stringify(value)} is no ${type}`)
  else seen.add(path)
}

function isOf(value: unknown, type: string): boolean {
  if (type === 'anything') return true
  if (type === 'bool') return typeof value === 'boolean'
  if (type === 'step') return isOf(value, 'str') || isOf(value, 'int')
  if (type.startsWith('is ')) return String(value instanceof NumberText ? value.text : value) === type.slice(3)
  if (value instanceof NumberText) return NUMBERS[type]?.test(value.text) === true
  if (typeof value !== 'string') return false
  if (type.startsWith('one of ')) return type.slice(7).split(', ').includes(value)
  return TEXTS[type]?.(value) === true
}

const NUMBERS: Record<string, RegExp> = {
  int: /^(0|-?[1-9]\d*)$/,
  count: /^[1-9]\d*$/,
  num: /^-?\d/,
}

const form =
  (pattern: RegExp) =>
  (text: string): boolean =>
    pattern.test(text)

/** Codes that the specification names. */
const CODES = new Set(
  `BAD_REQUEST CURSOR_NOT_SUPPORTED ALERT_LIMIT_REACHED FORBIDDEN_TIER FORBIDDEN_CHILD_KEY FORBIDDEN_SCOPE EMAIL_NOT_VERIFIED
  PLATFORM_ACCOUNT_NOT_LINKED NO_DELIVERY_CHANNEL NOT_FOUND ITEM_NOT_FOUND ALERT_NOT_FOUND WEBHOOK_NOT_FOUND
  DELIVERY_NOT_FOUND KEY_NOT_FOUND PORTFOLIO_ENTRY_NOT_FOUND TRANSACTION_NOT_FOUND CHILD_KEY_LIMIT_REACHED PAYLOAD_TOO_LARGE
  INTERNAL_ERROR UPSTREAM_ERROR AUTH_ACCOUNT_DISABLED DUPLICATE_ALERT UNSUPPORTED_MEDIA_TYPE INSUFFICIENT_HOLDINGS
  AUTH_INVALID_API_KEY AUTH_API_KEY_REVOKED UNAUTHORIZED FORBIDDEN RATE_LIMIT_EXCEEDED RATE_LIMIT_MONTHLY_QUOTA_EXCEEDED
  RATE_LIMIT_STREAM_QUOTA_EXCEEDED STREAM_ALREADY_ACTIVE RATE_LIMIT_FEED_CONNECTIONS_EXCEEDED PRICES_INDEX_UNAVAILABLE
  BIDS_INDEX_UNAVAILABLE SERVICE_UNAVAILABLE PORTFOLIO_NOT_FOUND PORTFOLIO_LIMIT_REACHED PORTFOLIO_ITEM_LIMIT_REACHED
  VALIDATION_ERROR`.split(/\s+/),
)

const TEXTS: Record<string, (text: string) => boolean> = {
  str: () => true,
  ts: text => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/.test(text) && isMoment(text, text),
  date: text => /^\d{4}-\d\d-\d\d$/.test(text) && isMoment(text, `${text}T00:00:00.000Z`),
  usd: form(/^-?(0|[1-9]\d*)\.\d\d$/),
  // At or above 1 two places, below eight.
  decimal: form(/^([1-9]\d*\.\d\d|0\.\d{8})$/),
  dec: form(/^-?(0|[1-9]\d*)(\.\d+)?$/),
  url: text => /^https?:\/\//.test(text) && URL.canParse(text),
  uuid: form(/^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
  uuid7: form(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/),
  code: form(/^[A-Z0-9]{2,10}$/),
  colour: form(/^[0-9a-f]{6}$/),
  digits: form(/^\d+$/),
  provider: form(/^provider_(0[1-9]|[1-3]\d|4[01])$/),
  'error code': text => CODES.has(text),
  'root key': form(/^sk_live_root_[\w-]{43}$/),
  'child key': form(/^sk_live_child_[\w-]{43}$/),
  'webhook secret': form(/^whsec_[\w-]{43}$/),
}

/** Whether a text names a moment that exists: no thirtieth of February. */
const isMoment = (text: string, instant: string): boolean =>
  !Number.isNaN(Date.parse(text)) && new Date(text).toISOString() === instant
