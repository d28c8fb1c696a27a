/**
 * One HTTP GET with every bound that a foreign server needs: time, bytes, redirects, retries.
 *
 * Reads the network; throws {@link FetchFailure} with a reason code and nothing secret in it. Invariant: a body is counted
 * as it streams in, decompressed, so no answer can exceed the memory allowed; headers given for one origin never reach
 * another; only transient failures are retried.
 */
import { setTimeout as delay } from 'node:timers/promises'
import pRetry from 'p-retry'
import type { HttpJsonOptions } from '#infra/config/market.ts'
import { retryAfterMs } from '#schemas/values/retry-after.ts'

interface FetchBounds
  extends Pick<HttpJsonOptions, 'request_timeout_ms' | 'max_bytes' | 'max_redirects' | 'retries' | 'retry_after_ms'> {
  /** Aborts when all the time of the refresh is used up, or when the process stops. */
  signal: AbortSignal
}

export class FetchFailure extends Error {
  readonly reason: string
  readonly isRetryable: boolean
  /** Before it, by performance.now, the server wants no further request. */
  readonly quietUntil: number
  constructor(reason: string, message: string, options: { isRetryable?: boolean; retryAfterMs?: number } = {}) {
    super(message)
    this.reason = reason
    this.isRetryable = options.isRetryable ?? false
    this.quietUntil = performance.now() + (options.retryAfterMs ?? 0)
  }
}

const RETRY_WAIT_MAX_MS = 30_000
const RETRYABLE_STATUS: ReadonlySet<number> = new Set([408, 429])
const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])

/** GETs a URL with retries; `headers` go to its own origin alone. */
export async function fetchText(url: URL, headers: Record<string, string>, bounds: FetchBounds) {
  try {
    return await pRetry(() => tryOnce(url, headers, bounds), {
      retries: bounds.retries,
      minTimeout: bounds.retry_after_ms,
      maxTimeout: RETRY_WAIT_MAX_MS,
      randomize: true,
      signal: bounds.signal,
      shouldRetry: ({ error }) => error instanceof FetchFailure && error.isRetryable,
      onFailedAttempt: ({ error, retriesLeft }) =>
        error instanceof FetchFailure && retriesLeft > 0 ? waitAsAsked(error, bounds.signal) : undefined,
    })
  } catch (error) {
    if (error instanceof FetchFailure) throw error
    if (bounds.signal.aborted) throw new FetchFailure('timeout', `${shown(url)}: no answer within the refresh's time`)
    throw error
  }
}

/** Waits as the server wishes; throws the failure where the time of the refresh ends before. */
async function waitAsAsked(failure: FetchFailure, signal: AbortSignal): Promise<void> {
  const waitMs = failure.quietUntil - performance.now()
  if (!failure.isRetryable || waitMs <= 0) return
  await delay(waitMs, undefined, { signal }).catch(() => {
    throw failure
  })
}

async function tryOnce(start: URL, headers: Record<string, string>, bounds: FetchBounds) {
  const timeout = AbortSignal.timeout(bounds.request_timeout_ms)
  const signal = AbortSignal.any([bounds.signal, timeout])
  try {
    return await follow(start, headers, bounds, signal)
  } catch (error) {
    if (error instanceof FetchFailure) throw error
    if (bounds.signal.aborted) throw bounds.signal.reason
    if (timeout.aborted)
      throw new FetchFailure('timeout', `${shown(start)}: no answer in ${bounds.request_timeout_ms} ms`, RETRY)
    throw new FetchFailure('network', `${shown(start)}: ${causeOf(error)}`, RETRY)
  }
}

const RETRY = { isRetryable: true }

async function follow(start: URL, headers: Record<string, string>, bounds: FetchBounds, signal: AbortSignal) {
  let url = start
  for (let hops = 0; ; hops++) {
    const own = url.origin === start.origin ? headers : {}
    const response = await fetch(url, { headers: { accept: 'application/json', ...own }, redirect: 'manual', signal })
    if (!REDIRECTS.has(response.status)) return await readAnswer(url, response, bounds.max_bytes)
    await response.body?.cancel()
    const next = URL.parse(response.headers.get('location') ?? '', url.href)
    const isAllowed = next?.protocol === 'https:' || (next?.protocol === 'http:' && url.protocol === 'http:')
    if (!next || !isAllowed) throw new FetchFailure('redirect', `${shown(url)}: redirects to no http(s) address`)
    if (hops >= bounds.max_redirects) throw new FetchFailure('redirect', `${shown(start)}: over ${hops} redirects`)
    url = next
  }
}

async function readAnswer(url: URL, response: Response, maxBytes: number) {
  const { status, headers } = response
  const validators = {
    etag: headers.get('etag') ?? undefined,
    lastModified: headers.get('last-modified') ?? undefined,
  }
  if (status === 304) return { status: 304, text: '', bytes: 0, ...validators }
  if (status !== 200) {
    await response.body?.cancel()
    // A date is measured by the answer's own clock.
    const waitMs = retryAfterMs(headers.get('retry-after'), Date.parse(headers.get('date') ?? '') || Date.now())
    const wish = waitMs > 0 ? `, and wants no request for ${Math.ceil(waitMs / 1_000)} s` : ''
    throw new FetchFailure('http_status', `${shown(url)}: answered ${status}${wish}`, {
      isRetryable: status >= 500 || RETRYABLE_STATUS.has(status),
      retryAfterMs: waitMs,
    })
  }
  return { status: 200, ...(await readBody(url, response, maxBytes)), ...validators }
}

async function readBody(url: URL, response: Response, maxBytes: number): Promise<{ text: string; bytes: number }> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  let bytes = 0
  let text = ''
  try {
    for await (const chunk of response.body ?? []) {
      bytes += chunk.byteLength
      if (bytes > maxBytes) throw new FetchFailure('too_large', `${shown(url)}: body is over ${maxBytes} bytes`)
      text += decoder.decode(chunk, { stream: true })
    }
    return { text: text + decoder.decode(), bytes }
  } catch (error) {
    const isNoText = (error as { code?: string }).code === 'ERR_ENCODING_INVALID_ENCODED_DATA'
    throw isNoText ? new FetchFailure('bad_text', `${shown(url)}: body is not UTF-8`) : error
  }
}

/** A URL without what may be secret in it: credentials and query. */
const shown = (url: URL): string => `${url.origin}${url.pathname}`

function causeOf(error: unknown): string {
  const cause = (error as { cause?: { code?: string } }).cause
  return cause?.code ?? (error instanceof Error ? error.message : String(error))
}
