/**
 * Reads what a request says: its id, its query string, its body, and the values that a schema makes of them.
 *
 * A query or body that cannot be decoded is a 400, one that breaks its schema a 422 with every violation; parameters that no schema
 * names are ignored. Express' own query parser is off: it decodes leniently and knows nested objects that no route has.
 */
import type { IncomingMessage } from 'node:http'
import express, { type Request, type Response } from 'express'
import type { z } from 'zod'
import type { ErrorCode, Violation } from '#schemas/api/error.ts'
import type { ViolationParams } from '#schemas/api/query-values.ts'
import { shownInput } from '#schemas/api/shown-input.ts'
import { HttpError } from './http-error.ts'

/** Parameter → its text, or its texts when it was repeated. */
export type RawQuery = Record<string, string | string[]>

/** Validates a request's query; throws the 422 that lists every violation. */
export function parse<T>(schema: z.ZodType<T>, request: IncomingMessage): T {
  const raw = rawQuery(request)
  const result = schema.safeParse(raw)
  if (result.success) return result.data
  throw new HttpError('VALIDATION_ERROR', violationsOf(result.error.issues, raw, 'query'))
}

/** Validates the parameters of a request's path; throws the 422 that lists every violation. */
export function parseParams<T>(schema: z.ZodType<T>, request: { params: unknown }): T {
  const result = schema.safeParse(request.params)
  if (result.success) return result.data
  throw new HttpError('VALIDATION_ERROR', violationsOf(result.error.issues, request.params, 'path'))
}

/** Decodes a request's query string; throws a 400 when it cannot be decoded. */
export function rawQuery(request: IncomingMessage): RawQuery {
  const url = request.url ?? ''
  const from = url.indexOf('?')
  const query: RawQuery = Object.create(null)
  if (from < 0) return query
  for (const part of url.slice(from + 1).split('&')) {
    if (part === '') continue
    const equals = part.indexOf('=')
    const name = decoded(equals < 0 ? part : part.slice(0, equals))
    const value = equals < 0 ? '' : decoded(part.slice(equals + 1))
    const before = query[name]
    if (before === undefined) query[name] = value
    else if (Array.isArray(before)) before.push(value)
    else query[name] = [before, value]
  }
  return query
}

function decoded(text: string): string {
  const spaced = text.includes('+') ? text.replaceAll('+', ' ') : text
  return spaced.includes('%') ? decodePercent(spaced) : spaced
}

/** Decodes percent-encoding; throws a 400 when it is none, or no UTF-8. */
export function decodePercent(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch (error) {
    throw new HttpError('BAD_REQUEST', 'The URL holds percent-encoding that cannot be decoded.', { cause: error })
  }
}

const REQUEST_ID = /^[A-Za-z0-9._-]{1,64}$/
/** Ids are logged, and a key may have been put there by mistake. */
const KEY_START = /sk_live_/

/** The client's own request id where it is harmless, else a new one. */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id']
  const isHarmless = typeof given === 'string' && REQUEST_ID.test(given) && !KEY_START.test(given)
  return isHarmless ? given : crypto.randomUUID()
}

/** A hundred names of 200 characters, escaped to six bytes each, are 120 kB. */
const BODY_MAX_BYTES = 256 * 1024

/** Of duplicate members the last wins. */
const reader = express.json({ limit: BODY_MAX_BYTES, strict: false, type: 'application/json' })

/** Reads the body into `request.body`, which a route does once its request has been accepted. */
export function readBody(request: Request, response: Response): Promise<void> {
  const { 'content-type': type, 'content-length': length, 'transfer-encoding': coding } = request.headers
  const isPresent = coding !== undefined || Number(length ?? 0) > 0
  if ((type !== undefined || isPresent) && !isJson(type)) {
    throw new HttpError('UNSUPPORTED_MEDIA_TYPE', 'Send the body as `Content-Type: application/json`.')
  }
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  reader(request, response, error => (error === undefined ? resolve() : reject(bodyFault(error, response))))
  return promise
}

/** Validates the body that {@link readBody} has read; throws the 422 that lists every violation. */
export function parseBody<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = schema.safeParse(body)
  if (result.success) return result.data
  throw new HttpError('VALIDATION_ERROR', violationsOf(result.error.issues, body, 'body'))
}

const isJson = (type: string | undefined): boolean => /^application\/json\s*(;|$)/i.test(type ?? '')

const BODY_FAULTS: Record<string, [code: ErrorCode, detail: string]> = {
  'entity.too.large': ['PAYLOAD_TOO_LARGE', `The body may hold ${BODY_MAX_BYTES} bytes at most.`],
  'encoding.unsupported': ['UNSUPPORTED_MEDIA_TYPE', 'This Content-Encoding is not known; gzip, br and deflate are.'],
  'charset.unsupported': ['UNSUPPORTED_MEDIA_TYPE', 'The body must be UTF-8.'],
}

/** The reader names what it refuses by `type`; all else that it refuses is a body that cannot be read. */
function bodyFault(error: unknown, response: Response): unknown {
  const { type = '', status = 500 } = error as { type?: string; status?: number }
  if (status >= 500) return error
  const [code, detail] = BODY_FAULTS[type] ?? ['BAD_REQUEST', 'The body is no JSON text.']
  // The rest of a body that was not read to its end is not waited for.
  if (code === 'PAYLOAD_TOO_LARGE') response.shouldKeepAlive = false
  return new HttpError(code, detail, { cause: error })
}

type Issue = z.core.$ZodIssue
type Described = Pick<Violation, 'type' | 'msg' | 'ctx'>

/** All violations of a request part whose raw value is `raw`: one for each issue, and for each unknown member. */
function violationsOf(issues: readonly Issue[], raw: unknown, part: 'path' | 'query' | 'body'): Violation[] {
  return issues.flatMap(issue => {
    if (issue.code === 'unrecognized_keys') {
      const described: Described = { type: 'extra_forbidden', msg: 'Extra inputs are not permitted', ctx: {} }
      return issue.keys.map(key => violationAt([...issue.path, key], described, raw, part))
    }
    const input = inputAt(raw, issue.path)
    const isRepeated = part === 'query' && Array.isArray(input) && !isOfList(issue)
    return [violationAt(issue.path, isRepeated ? REPEATED : describe(issue, input), raw, part)]
  })
}

/** Whether an issue is about a list as such, and not about a list where one text is expected. */
const isOfList = (issue: Issue): boolean =>
  ('origin' in issue && issue.origin === 'array') || (issue.code === 'custom' && issue.params?.type === 'too_long')

const REPEATED: Described = { type: 'value_error', msg: 'Parameter should be given only once', ctx: {} }

function violationAt(path: readonly PropertyKey[], described: Described, raw: unknown, part: string): Violation {
  const steps = path.map(step => (typeof step === 'number' ? step : String(step)))
  const input = shownInput(inputAt(raw, path) ?? null)
  return { type: described.type, loc: [part, ...steps], msg: described.msg, input, ctx: described.ctx }
}

/** A single text of a repeatable parameter is a list of one. */
function inputAt(raw: unknown, path: readonly PropertyKey[]): unknown {
  let value = raw
  for (const step of path) {
    if (typeof step === 'number' && step === 0 && typeof value === 'string') continue
    if (typeof value !== 'object' || value === null) return undefined
    value = (value as Record<PropertyKey, unknown>)[step]
  }
  return value
}

function describe(issue: Issue, input: unknown): Described {
  if (input === undefined && issue.code !== 'custom') return { type: 'missing', msg: 'Field required', ctx: {} }
  switch (issue.code) {
    case 'custom': {
      const { type, ctx } = (issue.params ?? { type: 'value_error' }) as ViolationParams
      return { type, msg: issue.message, ctx: ctx ?? {} }
    }
    case 'invalid_value': {
      const expected = listed(issue.values.map(value => `'${String(value)}'`))
      return { type: 'enum', msg: `Input should be ${expected}`, ctx: { expected } }
    }
    case 'too_small':
      return describeTooSmall(issue)
    case 'too_big':
      return describeTooBig(issue)
    case 'invalid_type':
      return TYPES[issue.expected] ?? describeType(issue.expected)
    default:
      return { type: 'value_error', msg: issue.message, ctx: {} }
  }
}

const TYPES: Record<string, Described> = {
  string: { type: 'string_type', msg: 'Input should be a text', ctx: {} },
  number: { type: 'int_parsing', msg: 'Input should be a whole number', ctx: {} },
  int: { type: 'int_parsing', msg: 'Input should be a whole number', ctx: {} },
  boolean: { type: 'bool_parsing', msg: 'Input should be true or false', ctx: {} },
}

const describeType = (expected: string): Described => ({
  type: 'value_error',
  msg: `Input should be of type ${expected}`,
  ctx: { expected },
})

function describeTooSmall(issue: z.core.$ZodIssueTooSmall): Described {
  const least = Number(issue.minimum)
  if (issue.origin === 'string') {
    return {
      type: 'string_too_short',
      msg: `Text should have at least ${least} character(s)`,
      ctx: { min_length: least },
    }
  }
  if (issue.origin === 'array') {
    return { type: 'too_short', msg: `List should have at least ${least} member(s)`, ctx: { min_length: least } }
  }
  return issue.inclusive
    ? { type: 'greater_than_equal', msg: `Input should be greater than or equal to ${least}`, ctx: { ge: least } }
    : { type: 'greater_than', msg: `Input should be greater than ${least}`, ctx: { gt: least } }
}

function describeTooBig(issue: z.core.$ZodIssueTooBig): Described {
  const most = Number(issue.maximum)
  if (issue.origin === 'string') {
    return { type: 'string_too_long', msg: `Text should have at most ${most} characters`, ctx: { max_length: most } }
  }
  if (issue.origin === 'array') {
    return { type: 'too_long', msg: `List should have at most ${most} members`, ctx: { max_length: most } }
  }
  return issue.inclusive
    ? { type: 'less_than_equal', msg: `Input should be less than or equal to ${most}`, ctx: { le: most } }
    : { type: 'less_than', msg: `Input should be less than ${most}`, ctx: { lt: most } }
}

function listed(values: readonly string[]): string {
  const last = values.at(-1) ?? ''
  return values.length > 1 ? `${values.slice(0, -1).join(', ')} or ${last}` : last
}
