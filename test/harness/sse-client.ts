/**
 * A reader of Server-Sent Events for tests: a line that the format does not know throws, so a broken stream cannot look like a quiet one.
 * `pause` stops reading from the socket, which is how a test plays a stalled client.
 */
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http'
import { createParser } from 'eventsource-parser'
import { eventually } from './eventually.ts'

export interface SseEvent {
  event: string
  data: unknown
  id: string | undefined
}

/** The data of an event of changed prices or bids. */
export interface ChangedRows {
  provider: string
  seen_at: string
  items: { item_id: number; price: number | null; qty: number; change: string }[]
}

export const changedRows = ({ event, data }: Pick<SseEvent, 'event' | 'data'>): ChangedRows[] =>
  event === 'prices.changed' || event === 'bids.changed' ? [data as ChangedRows] : []

/** Of what comes after `ready`, only what an id covers will not be sent again. */
export const upToLastId = (events: readonly SseEvent[]): readonly SseEvent[] =>
  events.slice(0, Math.max(1, events.findLastIndex(({ id }) => id !== undefined) + 1))

/** An open stream, or an answer that is none. */
export type SseClient = ReturnType<typeof readerOf>

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

function readerOf(request: ClientRequest, response: IncomingMessage) {
  const isStream = response.headers['content-type']?.startsWith('text/event-stream') ?? false
  const [events, comments]: [SseEvent[], string[]] = [[], []]
  let retryMs: number | undefined
  const parser = createParser({
    onEvent: ({ event = 'message', data, id }) => events.push({ event, data: JSON.parse(data), id }),
    onComment: comment => comments.push(comment),
    onRetry: ms => {
      retryMs = ms
    },
    onError(error) {
      throw error
    },
  })
  let hasEnded = false
  const ended = Promise.withResolvers<void>()
  let bytes = 0
  let text = ''
  response.setEncoding('utf8')
  response.on('data', (chunk: string) => {
    bytes += Buffer.byteLength(chunk)
    if (isStream) parser.feed(chunk)
    else text += chunk
  })
  // A stream that breaks off ends as well: `aborted` reaches us as an error.
  const finish = () => {
    hasEnded = true
    ended.resolve()
  }
  for (const end of ['end', 'error', 'close']) response.on(end, finish)
  request.on('error', finish)
  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    events: events as readonly SseEvent[],
    /** Lines so far, without the colon and one space after it. */
    comments: comments as readonly string[],
    /** The last `retry:` of the server, in milliseconds. */
    retryMs: () => retryMs,
    bytes: () => bytes,
    /** Of an answer that is no stream, parsed as JSON. */
    body: async (): Promise<unknown> => {
      await eventually(() => hasEnded, 'the end of the answer')
      return JSON.parse(text)
    },
    /** Resolves with the first event, already received or to come, that fits. */
    event: (fits: (event: SseEvent) => boolean) => eventually(() => events.find(fits), 'an event'),
    /** True when the other side has ended the stream or the connection broke. */
    hasEnded: () => hasEnded,
    ended: ended.promise,
    pause: () => void response.pause(),
    resume: () => void response.resume(),
    close: () => void request.destroy(),
  }
}
