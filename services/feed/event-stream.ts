/**
 * One subscriber's connection: bytes out, within a bound.
 *
 * States: open -> ending (a parting comment is queued, nothing more is taken) -> closed (the socket is
 * gone). Invariant: what a client leaves unread never exceeds the cap by more than the parting comment,
 * and an ending stream that is not read within its limit is cut, so a stalled client costs its cap and
 * nothing else. Knows nothing of feeds.
 */
import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { PING, partingFrame } from './frames.ts'

/** An open stream of events. */
export interface EventStream {
  /** Queues a frame; tells when the stream was over before, or is over now because the client reads too slowly. */
  send(frame: Buffer): 'queued' | 'over' | 'too_slow'
  /** Unread bytes. */
  waiting(): number
  /** Ends the stream because its client reads too slowly. */
  giveUp(): 'too_slow' | 'over'
  /** Calls whenever all that was queued has gone out. */
  onDrain(call: () => void): void
  /** Resolves true when little is unread, false when the stream is over or that takes longer than a limit. */
  drained(): Promise<boolean>
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

/** Unread bytes from which on a producer that can wait waits. */
const PLENTY_BYTES = 256 * 1024
/** How long such a producer waits for a client that reads nothing. */
const DRAIN_LIMIT_MS = 30_000

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
  const giveUp: EventStream['giveUp'] = () => {
    if (!isOpen) return 'over'
    end(`closed: more than ${capBytes} bytes were waiting to be read; read faster, or ask for fewer items`)
    return 'too_slow'
  }
  const send: EventStream['send'] = frame => {
    if (!isOpen) return 'over'
    if (response.writableLength + frame.length > capBytes) return giveUp()
    response.write(frame)
    sentAt = now()
    return 'queued'
  }
  return {
    send,
    giveUp,
    waiting: () => response.writableLength,
    onDrain: call => void response.on('drain', () => isOpen && call()),
    async drained() {
      if (!isOpen) return false
      if (response.writableLength < PLENTY_BYTES) return true
      await Promise.race([once(response, 'drain', { signal: AbortSignal.timeout(DRAIN_LIMIT_MS) }), closed]).catch(() =>
        end(`closed: nothing was read for ${DRAIN_LIMIT_MS / 1000} seconds`),
      )
      return isOpen
    },
    pingIfIdle(idleMs) {
      if (now() - sentAt >= idleMs) send(PING)
    },
    end,
    closed,
  }
}
