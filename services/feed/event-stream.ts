/**
 * One subscriber's connection: bytes out, within a bound.
 *
 * States: open -> ending (a closing comment is queued, nothing more is accepted) -> closed (the socket is gone).
 * Invariant: what a client leaves unread never exceeds the cap by more than the closing comment, and an ending stream that
 * is not read within its limit is cut, so a stalled client costs its cap and nothing else. Knows nothing of feeds. A class,
 * and a socket without HTTP around it (infra/runtime/raw-socket.ts), to save memory with ten thousand idle clients.
 */
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { Response } from 'express'
import { beginAnswer } from '#infra/http/reply.ts'
import { takeSocketOver } from '#infra/runtime/raw-socket.ts'
import { PING, partingFrame } from './frames.ts'

/** A stream that is over takes no frame, and is over now where its client reads too slowly. */
export type SendOutcome = 'queued' | 'over' | 'too_slow'

export interface EventStreamOptions {
  /** Most unread bytes. */
  capBytes: number
  /** How long a client may take to read what is queued when its stream ends. */
  endLimitMs: number
  /** Monotonic clock in milliseconds. */
  now: () => number
}

/** Unread bytes from which on a producer waits, if it can. */
const HIGH_WATER_BYTES = 256 * 1024
/** How long such a producer waits for a client that reads nothing. */
const DRAIN_LIMIT_MS = 30_000

const HEADERS = [
  ...['Content-Type', 'text/event-stream', 'Cache-Control', 'private, no-cache, no-transform'],
  ...['X-Accel-Buffering', 'no', 'Connection', 'close'],
]

/** Answers a request with a stream of events; undefined when its client is gone. */
export function openEventStream(
  { request, response }: { request: IncomingMessage; response: Response },
  options: EventStreamOptions,
): EventStream | undefined {
  // Without chunks a frame is one write of a shared Buffer; the body ends with the connection.
  response.removeHeader('transfer-encoding')
  beginAnswer(response, 200, HEADERS)
  response.flushHeaders()
  const socket = takeSocketOver(request, response)
  return socket && new EventStream(socket, options)
}

export class EventStream {
  readonly #socket: Socket
  readonly #options: EventStreamOptions
  #isEnding = false
  #sentAt: number

  constructor(socket: Socket, options: EventStreamOptions) {
    this.#socket = socket
    this.#options = options
    this.#sentAt = options.now()
  }

  #isOver(): boolean {
    return this.#isEnding || this.#socket.destroyed
  }

  send(frame: Buffer): SendOutcome {
    if (this.#isOver()) return 'over'
    const socket = this.#socket
    if (socket.writableLength + frame.length > this.#options.capBytes) return this.giveUp()
    socket.write(frame)
    this.#sentAt = this.#options.now()
    return 'queued'
  }

  /** Ends the stream because its client reads too slowly. */
  giveUp(): 'too_slow' | 'over' {
    if (this.#isOver()) return 'over'
    const { capBytes } = this.#options
    this.end(`closed: more than ${capBytes} bytes were waiting to be read; read faster, or ask for fewer items`)
    return 'too_slow'
  }

  waiting(): number {
    return this.#socket.writableLength
  }

  /** Calls whenever all that was queued has gone out. */
  onDrain(call: () => void): void {
    this.#socket.on('drain', () => {
      if (!this.#isOver()) call()
    })
  }

  /** Resolves when little is unread, or the stream is over: at once, or because that took longer than a limit. */
  async drained(): Promise<void> {
    if (this.#isOver() || this.waiting() < HIGH_WATER_BYTES) return
    const { promise: closed, resolve } = Promise.withResolvers<void>()
    this.onClose(resolve)
    const limit = AbortSignal.timeout(DRAIN_LIMIT_MS)
    await Promise.race([once(this.#socket, 'drain', { signal: limit }), closed]).catch(() =>
      this.end(`closed: nothing was read for ${DRAIN_LIMIT_MS / 1000} seconds`),
    )
    this.#socket.off('close', resolve)
  }

  pingIfIdle(idleMs: number): void {
    if (this.#options.now() - this.#sentAt >= idleMs) this.send(PING)
  }

  /** Sends the reason in a comment, and when to reconnect if a time is given, and ends the stream. */
  end(reason: string, retryMs?: number): void {
    if (this.#isOver()) return
    this.#isEnding = true
    const socket = this.#socket
    socket.write(partingFrame(reason, retryMs))
    socket.destroySoon()
    const cut = setTimeout(() => socket.destroy(), this.#options.endLimitMs)
    // A process that stops need not wait for it.
    cut.unref()
    socket.once('close', () => clearTimeout(cut))
  }

  onClose(call: () => void): void {
    if (this.#socket.closed) call()
    else this.#socket.once('close', call)
  }
}
