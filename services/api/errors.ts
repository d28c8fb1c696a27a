/**
 * How a failed request is answered: the one place where errors become HTTP.
 *
 * Status codes are in schemas/api/error.ts. Invariant: every error answer has `code` and `detail`; what is not an
 * ApiError is a bug or a lost dependency, is logged with the request's id and does not reveal its cause to the client.
 */
import type { ErrorRequestHandler } from 'express'
import { HttpError } from '#infra/http/http-error.ts'
import type { Log } from '#infra/runtime/log.ts'
import { ERROR_STATUS, type ErrorCode, type ErrorReply } from '#schemas/api/error.ts'
import { localsOf, send } from './reply.ts'

const REPORT_EVERY_MS = 1_000

/** An answer of the API that is not the one that was asked for. */
export class ApiError extends HttpError {}

/** The item that a request names is not in the catalog; `nearest` is the name that may have been meant. */
export function itemNotFound(nearest?: string): ApiError {
  if (nearest === undefined) {
    return new ApiError('ITEM_NOT_FOUND', 'No catalog item has this id, or this name and phase.')
  }
  return new ApiError('ITEM_NOT_FOUND', `No catalog item has this name; the nearest is "${nearest}".`)
}

/** Runs a read of a dependency; its failure becomes a 503 that names no cause to the client. */
export async function orUnavailable<T>(read: Promise<T>, code: ErrorCode, detail: string): Promise<T> {
  try {
    return await read
  } catch (error) {
    if (error instanceof ApiError) throw error
    throw new ApiError(code, detail, { cause: error })
  }
}

/** Answers errors; the last handler of the application. */
export function answerErrors(log: Log, now: () => number): ErrorRequestHandler {
  const report = openReporter(log, now)
  return (error, _request, response, _next) => {
    const failure = asApiError(error)
    const status = ERROR_STATUS[failure.code]
    if (status >= 500) report(failure, localsOf(response).requestId)
    if (response.headersSent) {
      // Half an answer must not look like a whole one.
      response.destroy()
      return
    }
    send(
      response,
      status,
      JSON.stringify({ code: failure.code, detail: failure.detail, ...failure.members } as ErrorReply),
      failure.headers,
    )
  }
}

/** Logs bugs one by one, and a lost dependency once a second: it fails every request. */
function openReporter(log: Log, now: () => number): (failure: ApiError, requestId: string) => void {
  const lastAt = new Map<ErrorCode, number>()
  let unreported = 0
  return (failure, requestId) => {
    const { code } = failure
    const isBug = code === 'INTERNAL_ERROR'
    if (!isBug && now() - (lastAt.get(code) ?? Number.NEGATIVE_INFINITY) < REPORT_EVERY_MS) {
      unreported += 1
      return
    }
    lastAt.set(code, now())
    const line = { request_id: requestId, code, unreported, err: failure.cause ?? failure }
    if (isBug) log.error(line, 'a request met a bug')
    else log.warn(line, 'a request could not be answered')
    unreported = 0
  }
}

/** Express marks what it refuses itself (a path parameter that cannot be decoded) with a status. */
function asApiError(error: unknown): HttpError {
  if (error instanceof HttpError) return error
  if ((error as { status?: number } | null)?.status === 400) {
    return new ApiError('BAD_REQUEST', 'The request line cannot be decoded.', { cause: error })
  }
  return new ApiError('INTERNAL_ERROR', 'Something went wrong on our side; the request id helps us find it.', {
    cause: error,
  })
}
