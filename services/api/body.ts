/**
 * Reads the JSON body of a request and validates it.
 *
 * Invariant (DECISIONS.md, "Errors" and "Order of checks"): a body of another type is a 415, one that is
 * too large a 413, one that is no JSON a 400, one that breaks its schema a 422 with every violation; of
 * duplicate members the last wins. A body is read after the guard has accepted its request.
 */
import express, { type Request, type RequestHandler, type Response } from 'express'
import type { z } from 'zod'
import type { ErrorCode } from '#schemas/api/error.ts'
import { ApiError } from './errors.ts'
import { violationsOf } from './violations.ts'

/** A hundred names of 200 characters, escaped to six bytes each, are 120 kB. */
const BODY_MAX_BYTES = 256 * 1024

const reader = express.json({ limit: BODY_MAX_BYTES, strict: false, type: 'application/json' })

/** Reads the body into `request.body`; comes after the guard in a route. */
export const readBody: RequestHandler = (request, response, next) => {
  const { 'content-type': type, 'content-length': length, 'transfer-encoding': coding } = request.headers
  const isPresent = coding !== undefined || Number(length ?? 0) > 0
  if ((type !== undefined || isPresent) && !isJson(type)) {
    throw new ApiError('UNSUPPORTED_MEDIA_TYPE', 'Send the body as `Content-Type: application/json`.')
  }
  reader(request, response, error => next(error === undefined ? undefined : refusal(error, response)))
}

/** Validates the body that {@link readBody} has read; throws the 422 that lists every violation. */
export function parseBody<T>(schema: z.ZodType<T>, request: Request): T {
  const body: unknown = request.body
  const result = schema.safeParse(body)
  if (result.success) return result.data
  throw new ApiError('VALIDATION_ERROR', violationsOf(result.error.issues, body, 'body'))
}

const isJson = (type: string | undefined): boolean => /^application\/json\s*(;|$)/i.test(type ?? '')

const REFUSALS: Record<string, [code: ErrorCode, detail: string]> = {
  'entity.too.large': ['PAYLOAD_TOO_LARGE', `The body may hold ${BODY_MAX_BYTES} bytes at most.`],
  'encoding.unsupported': ['UNSUPPORTED_MEDIA_TYPE', 'This Content-Encoding is not known; gzip, br and deflate are.'],
  'charset.unsupported': ['UNSUPPORTED_MEDIA_TYPE', 'The body must be UTF-8.'],
}

/** The reader names what it refuses by `type`; all else that it refuses is a body that cannot be read. */
function refusal(error: unknown, response: Response): unknown {
  const { type = '', status = 500 } = error as { type?: string; status?: number }
  if (status >= 500) return error
  const [code, detail] = REFUSALS[type] ?? ['BAD_REQUEST', 'The body is no JSON text.']
  // The rest of a body that was not read to its end is not waited for.
  if (code === 'PAYLOAD_TOO_LARGE') response.shouldKeepAlive = false
  return new ApiError(code, detail, { cause: error })
}
