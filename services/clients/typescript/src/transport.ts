/**
 * One request of an operation and its repetitions.
 *
 * An attempt ends with a reply, a MarketlogError, a MarketlogConnectionError, or the reason of the caller's signal. A stream is handed
 * over with the controller of its connection, which whoever reads it aborts in the end.
 */
import { MarketlogConnectionError, MarketlogError } from './errors.ts'
import type { CallOptions, Operation } from './operation.ts'
import { pause, retryDelayMs } from './retry.ts'

export interface MarketlogOptions extends Omit<CallOptions, 'signal'> {
  /** The platform's address, with or without `/v1`. */
  baseUrl: string
  /** An API key, or a session's access token. Public operations need none. */
  key?: string | undefined
  /** Gives a token of `issueFeedToken`, for pages whose server keeps the key; feeds use it instead of the key. */
  feedToken?: () => string | Promise<string>
  /** How long a stream may send nothing; the platform sends a heartbeat every 20 seconds. */
  silenceMs?: number
  fetch?: typeof fetch
}

export type Transport = ReturnType<typeof openTransport>

/** A reply whose body is still to be read. */
export interface OpenReply {
  response: Response
  connection: AbortController
}

export function openTransport({
  baseUrl,
  key,
  feedToken,
  timeoutMs: usualTimeoutMs = 30_000,
  retries: usualRetries = 4,
  retryWithinMs: usualRetryWithinMs = 60_000,
  silenceMs = 45_000,
  fetch: send = fetch,
}: MarketlogOptions) {
  const base = baseUrl.replace(/(\/v1)?\/*$/, '')

  /** One attempt; `read` gets an answer that is no error. */
  async function attempt<T>(
    { url, init }: ReturnType<typeof requestOf>,
    { signal, timeoutMs = usualTimeoutMs }: CallOptions,
    read: (reply: OpenReply) => T | Promise<T>,
  ): Promise<T> {
    const connection = new AbortController()
    const slow = setTimeout(() => connection.abort(new Error(`no reply within ${timeoutMs} ms`)), timeoutMs)
    const both = signal ? AbortSignal.any([signal, connection.signal]) : connection.signal
    try {
      const response = await send(base + url, { ...init, signal: both })
      if (response.status >= 400) throw new MarketlogError(response.status, response.headers, await response.text())
      return await read({ response, connection })
    } catch (error) {
      throw translated(error, signal)
    } finally {
      clearTimeout(slow)
    }
  }

  /** An attempt and its repetitions. */
  async function request<T>(
    operation: Operation,
    parameters: object,
    options: CallOptions,
    read: (reply: OpenReply) => T | Promise<T>,
  ): Promise<T> {
    // Drawn once, so that each attempt carries the same idempotency key.
    const prepared = requestOf(operation, parameters, key)
    const { retries = usualRetries, retryWithinMs = usualRetryWithinMs } = options
    const startedAt = performance.now()
    for (let attempts = 1; ; attempts++) {
      options.signal?.throwIfAborted()
      try {
        return await attempt(prepared, options, read)
      } catch (error) {
        const tried = { attempts, elapsedMs: performance.now() - startedAt, isRepeatable: !!operation.isRepeatable }
        const delayMs = retryDelayMs(error, tried, { retries, retryWithinMs })
        if (delayMs === undefined) throw error
        await pause(delayMs, options.signal)
      }
    }
  }

  return {
    feedToken,
    call: (operation: Operation, parameters: object, options: CallOptions = {}): Promise<unknown> =>
      request(operation, parameters, options, ({ response }) => replyOf(operation, response)),
    /** The text of a stream as it arrives; each chunk is read when the one before was used. */
    async open(operation: Operation, parameters: object, options: CallOptions = {}): Promise<AsyncGenerator<string>> {
      const reply = await request(operation, parameters, options, one => one)
      return textOf(reply, silenceMs, options.signal)
    },
  }
}

/** The path with its query, and what is sent. */
export function requestOf(operation: Operation, parameters: object, key: string | undefined) {
  const { method, body, isPublic, headers: headerNames = [] } = operation
  const rest: Record<string, unknown> = { ...parameters }
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = rest[name]
    if (value === undefined) throw new TypeError(`${name} is missing`)
    delete rest[name]
    return encodeURIComponent(String(value))
  })
  const headers: Record<string, string> = key === undefined || isPublic ? {} : { authorization: `Bearer ${key}` }
  for (const header of headerNames) {
    const name = header.toLowerCase().replaceAll('-', '_')
    headers[header] = String(rest[name] ?? crypto.randomUUID())
    delete rest[name]
  }
  const init = { method, headers, redirect: operation.reply === 'location' ? 'manual' : 'follow' } as const
  if (body === 'form') return { url: path, init: { ...init, body: formOf(rest) } }
  if (body === 'json') {
    headers['content-type'] = 'application/json'
    return { url: path, init: { ...init, body: JSON.stringify(rest) } }
  }
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(rest))
    for (const one of [value].flat()) if (one !== undefined && one !== null) query.append(name, String(one))
  return { url: query.size === 0 ? path : `${path}?${query}`, init }
}

function formOf({ file }: Record<string, unknown>): FormData {
  const form = new FormData()
  form.set('file', file instanceof Blob ? file : new Blob([String(file)], { type: 'text/csv' }), 'file.csv')
  return form
}

async function replyOf({ reply }: Operation, response: Response): Promise<unknown> {
  if (reply === 'json') return response.json()
  if (reply === 'text') return response.text()
  await response.body?.cancel()
  if (reply === 'nothing') return undefined
  const location = response.headers.get('location')
  // A browser hides where a redirect leads.
  if (location === null) throw new MarketlogConnectionError('the address of a redirect cannot be read; open it instead')
  return location
}

async function* textOf(
  { response, connection }: OpenReply,
  silenceMs: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<string, void, void> {
  const decoder = new TextDecoder()
  const reader = response.body?.getReader()
  try {
    while (reader) {
      const silent = setTimeout(() => connection.abort(new Error(`nothing came for ${silenceMs} ms`)), silenceMs)
      const { done, value } = await reader.read().finally(() => clearTimeout(silent))
      if (done) return
      yield decoder.decode(value, { stream: true })
    }
  } catch (error) {
    throw translated(error, signal)
  } finally {
    connection.abort()
  }
}

/** A failure of the connection; any other error, and the reason of the caller's signal, is handed on. */
function translated(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted) return signal.reason
  if (error instanceof MarketlogError || error instanceof MarketlogConnectionError) return error
  // Node says no more than that the fetch failed.
  const reason = error instanceof Error && error.cause instanceof Error ? error.cause : error
  return new MarketlogConnectionError(reason instanceof Error ? reason.message : String(reason), { cause: error })
}
