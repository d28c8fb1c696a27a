/**
 * Reads what a request says: its query string, its body, and the values that a schema makes of them.
 *
 * A query or body that cannot be decoded is a 400, one that breaks its schema a 422 with its violations. Of parameters that no schema
 * names, those are refused that violations.ts takes for misspelled; the others are ignored. Express' own query parser is off: it
 * decodes leniently and knows nested objects that no route has.
 */
import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import express, { type Request, type Response } from 'express'
import type { z } from 'zod'
import type { ErrorCode, Violation } from '#schemas/api/error.ts'
import { HttpError } from './http-error.ts'
import { nameFaults, noObject, type RequestPart, refusalOf } from './violations.ts'

/** Parameter → its text, or its texts when it was repeated. */
export type RawQuery = Record<string, string | string[]>

/** Validates a request's query; throws the 422 that lists its violations. */
export function parse<S extends z.ZodObject>(schema: S, request: IncomingMessage): z.output<S> {
  const raw = rawQuery(request)
  const known = Object.keys(schema.shape)
  const unknown = Object.keys(raw).filter(name => !known.includes(name))
  const query = validated(schema, raw, 'query', unknown.length > 0 ? nameFaults(unknown, known, raw) : [])
  // It says how to read the others, and is none of what they select.
  if ('strict' in query) delete query.strict
  return query as z.output<S>
}

/** Validates a part of a request; throws the 422 that lists its violations, and the faults that no schema sees. */
export function validated<T>(
  schema: z.ZodType<T>,
  raw: unknown,
  part: RequestPart,
  faults: readonly Violation[] = [],
): T {
  // Refinements of a body read its members, so it must have some.
  if (part === 'body' && (typeof raw !== 'object' || raw === null || Array.isArray(raw))) throw noObject(raw)
  // As safeParse does, but for the text that it makes of every issue.
  const result = schema._zod.run({ value: raw, issues: [] }, { async: false })
  if (result instanceof Promise) throw new Error('a schema of a request must not be asynchronous')
  if (result.issues.length === 0 && faults.length === 0) return result.value as T
  throw refusalOf(result.issues, faults, raw, part)
}

/** A request's parameters; serve-routes.ts has refused a URL that cannot be decoded. */
export function rawQuery({ url = '' }: IncomingMessage): RawQuery {
  const query: RawQuery = Object.create(null)
  const at = url.indexOf('?')
  if (at < 0) return query
  for (const [name, value] of new URLSearchParams(url.slice(at + 1))) {
    const before = query[name]
    if (before === undefined) query[name] = value
    else if (Array.isArray(before)) before.push(value)
    else query[name] = [before, value]
  }
  return query
}

/** Decodes percent-encoding; throws a 400 when it is none, or no UTF-8. */
export function decodePercent(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch (error) {
    throw new HttpError('BAD_REQUEST', 'The URL holds percent-encoding that cannot be decoded.', { cause: error })
  }
}

/** A hundred names of 200 characters, escaped to six bytes each, are 120 kB. */
const BODY_MAX_BYTES = 256 * 1024

/** A packed body may unpack to as much without being compared with what arrived: it could be sent as it is. */
const UNPACKED_FREE_BYTES = 16 * 1024
/** A hundred alerts that differ in little shrink to a fifteenth. */
const UNPACKED_RATIO_MAX = 32

/** Bytes of a packed body that have arrived. */
const arrived = new WeakMap<IncomingMessage, number>()

/** Refuses a body whose size is none of its sender's effort. */
function verifyRatio(request: IncomingMessage, unpacked: Buffer): void {
  const bytes = arrived.get(request)
  if (bytes === undefined || unpacked.length <= Math.max(UNPACKED_FREE_BYTES, bytes * UNPACKED_RATIO_MAX)) return
  throw Object.assign(new Error('the body unpacks to too much'), { type: 'ratio' })
}

/** Of duplicate members the last wins; a byte-order mark is skipped. */
const reader = express.json({
  limit: BODY_MAX_BYTES,
  strict: false,
  type: 'application/json',
  verify(request, _response, unpacked) {
    verifyRatio(request, unpacked)
    // The reader would put U+FFFD in the place of what it cannot decode.
    if (!isUtf8(unpacked)) throw Object.assign(new Error('the body is not UTF-8'), { type: 'encoding' })
  },
})

/** Reads the body into `request.body`, which a route does once its request has been accepted. */
export function readBody(request: Request, response: Response): Promise<void> {
  const { 'content-type': type, 'content-length': length, 'transfer-encoding': coding } = request.headers
  const isPresent = coding !== undefined || Number(length ?? 0) > 0
  if ((type !== undefined || isPresent) && !isJson(type)) {
    throw new HttpError('UNSUPPORTED_MEDIA_TYPE', 'Send the body as `Content-Type: application/json`.')
  }
  if (OTHER_CHARSET.test(type ?? '')) {
    throw new HttpError(
      'UNSUPPORTED_MEDIA_TYPE',
      'The body must be UTF-8; leave `charset` out, or write `charset=utf-8`.',
    )
  }
  if ((request.headers['content-encoding'] ?? 'identity') !== 'identity') {
    arrived.set(request, 0)
    request.on('data', (chunk: Buffer) => arrived.set(request, (arrived.get(request) ?? 0) + chunk.length))
  }
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  reader(request, response, error => (error === undefined ? resolve() : reject(bodyFault(error, response))))
  return promise
}

const isJson = (type: string | undefined): boolean => /^application\/json\s*(;|$)/i.test(type ?? '')

/** The reader would take UTF-16 as well. */
const OTHER_CHARSET = /;\s*charset\s*=(?!\s*"?utf-8"?\s*(?:;|$))/i

const BODY_FAULTS: Record<string, [code: ErrorCode, detail: string]> = {
  'entity.too.large': ['PAYLOAD_TOO_LARGE', `The body may hold ${BODY_MAX_BYTES} bytes at most.`],
  ratio: [
    'PAYLOAD_TOO_LARGE',
    `A packed body may unpack to ${UNPACKED_RATIO_MAX} times its size at most; send it as it is.`,
  ],
  'encoding.unsupported': ['UNSUPPORTED_MEDIA_TYPE', 'This Content-Encoding is not known; gzip, br and deflate are.'],
  encoding: ['BAD_REQUEST', 'The body is not UTF-8.'],
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
