/**
 * Reads what a request says: its id, its path, its query string, its validated parameters.
 *
 * Invariant: a query that cannot be decoded is a 400, one that breaks its schema a 422 with every
 * violation; parameters that no schema names are ignored. Express' own query parser is off: it decodes
 * leniently and knows nested objects that this API does not have.
 */
import type { IncomingMessage } from 'node:http'
import type { z } from 'zod'
import { ApiError } from './errors.ts'
import { violationsOf } from './violations.ts'

/** Parameter → its text, or its texts when it was repeated. */
export type RawQuery = Record<string, string | string[]>

/** Validates a request's query; throws the 422 that lists every violation. */
export function parse<T>(schema: z.ZodType<T>, request: IncomingMessage): T {
  const raw = rawQuery(request)
  const result = schema.safeParse(raw)
  if (result.success) return result.data
  throw new ApiError('VALIDATION_ERROR', violationsOf(result.error.issues, raw, 'query'))
}

/** Validates the parameters of a request's path; throws the 422 that lists every violation. */
export function parseParams<T>(schema: z.ZodType<T>, request: { params: unknown }): T {
  const result = schema.safeParse(request.params)
  if (result.success) return result.data
  throw new ApiError('VALIDATION_ERROR', violationsOf(result.error.issues, request.params, 'path'))
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
    throw new ApiError('BAD_REQUEST', 'The URL holds percent-encoding that cannot be decoded.', { cause: error })
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
