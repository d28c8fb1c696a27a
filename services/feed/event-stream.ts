/**
 * One subscriber's connection: bytes out, within a bound.
 *
 * States: open -> ending (a parting comment is queued, nothing more is taken) -> closed (the socket is
 * gone). Invariant: what a client leaves unread never exceeds the cap by more than the parting comment,
 * and an ending stream that is not read within its limit is cut, so a stalled client costs its cap and
 * nothing else. Knows nothing of feeds.
 */
import type { ServerResponse } from 'node:http'
import { PING, partingFrame } from './frames.ts'

/** An open stream of events. */
export interface EventStream {
  /** Queues a frame; tells when the stream was over before, or is over now because the client reads too slowly. */
  send(frame: Buffer): 'queued' | 'over' | 'too_slow'
  /** Sends a ping when nothing was sent for `idleMs`. */
  pingIfIdle(idleMs: number): void
  /** Tells the reason in a comment and ends the stream; with a time, the client is told when to come back. */
  end(reason: string, retryMs?: number): void
  /** Resolves when the connection is gone. */
  readonly closed: Promise<void>
}

/** How a stream behaves. */
export interface EventStreamOptions {
  requestId: string
  /** Most unread bytes. */
  capBytes: number
  /** Monotonic clock in milliseconds. */
  now: () => number
}

/** How long a client may take to read what is queued when its stream ends. */
const END_LIMIT_MS = 5_000

const HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
  'x-content-type-options': 'nosniff',
  'access-control-allow-origin': '*',
  'access-control-expose-headers': 'X-Request-Id, Retry-After',
}

/** Answers a request with a stream of events. */
export function openEventStream(response: ServerResponse, options: EventStreamOptions): EventStream {
  const { capBytes, now } = options
  const { promise: closed, resolve } = Promise.withResolvers<void>()
  let isOpen = true
  let sentAt = now()
  let cut: NodeJS.Timeout | undefined
  response.once('close', () => {
    isOpen = false
    clearTimeout(cut)
    resolve()
  })
  // Without chunks a frame is one write of a shared Buffer; the body ends with the connection.
  response.removeHeader('transfer-encoding')
  response.writeHead(200, { ...HEADERS, 'x-request-id': options.requestId })
  response.flushHeaders()

  const end: EventStream['end'] = (reason, retryMs) => {
    if (!isOpen) return
    isOpen = false
    response.end(partingFrame(reason, retryMs))
    cut = setTimeout(() => response.destroy(), END_LIMIT_MS)
    // A process that stops need not wait for it.
    cut.unref()
  }
  const send: EventStream['send'] = frame => {
    if (!isOpen) return 'over'
    if (response.writableLength + frame.length > capBytes) {
      end(`closed: more than ${capBytes} bytes were waiting to be read; read faster, or ask for fewer items`)
      return 'too_slow'
    }
    response.write(frame)
    sentAt = now()
    return 'queued'
  }
  return {
    send,
    pingIfIdle(idleMs) {
      if (now() - sentAt >= idleMs) send(PING)
    },
    end,
    closed,
  }
}
