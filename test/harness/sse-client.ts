/**
 * A reader of Server-Sent Events for tests, strict about the wire format.
 *
 * Keeps every event and comment that came, in order. Invariant: a line that the format does not know
 * throws, so a broken stream cannot look like a quiet one. `pause` stops reading from the socket, which
 * is how a test plays a stalled client.
 */
import { type ClientRequest, request as httpRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
import { createParser } from 'eventsource-parser'
import { eventually } from './eventually.ts'

export interface SseEvent {
  event: string
  data: unknown
  id: string | undefined
}

/** An open stream, or an answer that is none. */
export interface SseClient {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly events: readonly SseEvent[]
  /** Comment lines so far, without the colon and one space after it. */
  readonly comments: readonly string[]
  /** The last `retry:` of the server, in milliseconds. */
  retryMs(): number | undefined
  bytes(): number
  /** The body of an answer that is no stream, parsed as JSON. */
  body(): Promise<unknown>
  /** Resolves with the first event, already received or to come, that fits. */
  event(fits: (event: SseEvent) => boolean): Promise<SseEvent>
  /** True when the other side has ended the stream or the connection broke. */
  hasEnded(): boolean
  pause(): void
  resume(): void
  close(): void
}

/** Opens a stream; resolves when the headers of the answer are there. */
export async function openSse(
  url: string,
  options: { key?: string; headers?: Record<string, string> } = {},
): Promise<SseClient> {
  const headers: Record<string, string> = { accept: 'text/event-stream', ...options.headers }
  if (options.key !== undefined) headers.authorization = `Bearer ${options.key}`
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const request = httpRequest(url, { headers, agent: false }, resolve).on('error', reject)
  request.end()
  const response = await promise
  return readerOf(request, response)
}

function readerOf(request: ClientRequest, response: IncomingMessage): SseClient {
  const isStream = response.headers['content-type']?.startsWith('text/event-stream') ?? false
  const parser = openParser()
  let ended = false
  let bytes = 0
  let text = ''
  response.setEncoding('utf8')
  response.on('data', (chunk: string) => {
    bytes += Buffer.byteLength(chunk)
    if (isStream) parser.take(chunk)
    else text += chunk
  })
  // A stream that breaks off ends as well: `aborted` reaches us as an error.
  const finish = () => {
    ended = true
  }
  for (const end of ['end', 'error', 'close']) response.on(end, finish)
  request.on('error', finish)
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    events: parser.events,
    comments: parser.comments,
    retryMs: parser.retryMs,
    bytes: () => bytes,
    body: async () => {
      await eventually(() => ended, 'the end of the answer')
      return JSON.parse(text)
    },
    event: fits => eventually(() => parser.events.find(fits), 'an event'),
    hasEnded: () => ended,
    pause: () => void response.pause(),
    resume: () => void response.resume(),
    close: () => void request.destroy(),
  }
}

function openParser() {
  const events: SseEvent[] = []
  const comments: string[] = []
  let retryMs: number | undefined
  const { feed } = createParser({
    onEvent: ({ event = 'message', data, id }) => events.push({ event, data: JSON.parse(data), id }),
    onComment: comment => comments.push(comment),
    onRetry: ms => {
      retryMs = ms
    },
    onError(error) {
      throw error
    },
  })
  return { events, comments, retryMs: () => retryMs, take: feed }
}
