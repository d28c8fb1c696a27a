/**
 * Sends bulk snapshots: one stream after the other to each key, as many at once as memory allows.
 *
 * Reads stored segments (infra/redis/value-stream.ts) and writes to the client's socket. States of a stream: started →
 * flowing → finished, or cut: the client hung up, took no byte for too long, its key was revoked, the source failed, the
 * permit was lost, or the process stops. Invariant: a stream that ends frees its permit at once, for whatever reason; a body that is not
 * whole ends in a destroyed connection, never like a whole one; a slow client holds one part of the body and the source waits.
 */
import type { Response } from 'express'
import { beginAnswer, localsOf } from '#infra/http/reply.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { StreamPermit } from '#infra/redis/stream-permits.ts'
import { readValues } from '#infra/redis/value-stream.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import type { RedisSettings } from '#infra/runtime/redis-settings.ts'
import type { PinnedSnapshot } from '#streams/live-view/reader.ts'
import { bodyLength, bodyOf, type ContentCoding } from './deflated-bodies.ts'

/** A stream that may begin. */
interface SnapshotStream {
  snapshot: PinnedSnapshot
  coding: ContentCoding
  permit: StreamPermit
  /** Whether its key is still accepted; after a rejection the stream goes on. */
  isAccepted(): Promise<boolean>
  /** Of the answer, but for those of its length and coding. */
  headers: readonly string[]
}

export interface SnapshotStreams {
  /** Whether another stream may begin. */
  hasRoom(): boolean
  /** Sends a snapshot; resolves when the stream has ended, however. Rejects, having sent nothing, when it cannot begin. */
  send(response: Response, stream: SnapshotStream): Promise<void>
  /** Lets streams finish for a while, then cuts them; resolves when all permits are free. */
  close(): Promise<void>
}

export interface SnapshotStreamOptions {
  /** How Redis is reached, and a connection to it. */
  settings: RedisSettings
  redis: Redis
  log: Log
  metrics: Metrics
  /** How long a client may take no byte. */
  stallLimitMs?: number
  /** How long a stream may go on when the process stops. */
  finishLimitMs?: number
}

const STALL_LIMIT_MS = 60_000
/** A stream holds up to 1.5 MiB. */
const STREAMS_MAX = 256
const FINISH_LIMIT_MS = 5_000
/** With the key directory's own bound below a second. */
const RECHECK_MS = 100

/** Why a stream ended before its body did. */
class Cut extends Error {
  readonly outcome: 'left' | 'stalled' | 'revoked' | 'stopped'

  constructor(outcome: Cut['outcome']) {
    super(`the stream was cut: ${outcome}`)
    this.outcome = outcome
  }
}

interface RunningStream {
  flowing: Promise<void>
  isAccepted: SnapshotStream['isAccepted']
}

export function openSnapshotStreams(options: SnapshotStreamOptions): SnapshotStreams {
  const { settings, redis, log, metrics, stallLimitMs = STALL_LIMIT_MS, finishLimitMs = FINISH_LIMIT_MS } = options
  const active = metrics.gauge('api_snapshot_streams', 'Bulk streams that run.')
  const running = new Map<AbortController, RunningStream>()
  const rechecking = setInterval(() => recheck(running), RECHECK_MS).unref()
  const note = openNotes(log, metrics)
  const flow = async (response: Response, stream: SnapshotStream, cut: AbortController): Promise<void> => {
    const { snapshot, coding, permit, headers } = stream
    const { segments } = snapshot
    const pieces = readValues({ settings, redis, keys: segments.map(({ key }) => key), signal: cut.signal })
    const body = bodyOf(segments, coding, pieces)
    let first: IteratorResult<Buffer, void>
    try {
      cut.signal.throwIfAborted()
      first = await body.next()
    } catch (error) {
      await permit.undo()
      const reason = cut.signal.aborted ? cut.signal.reason : error
      note(response, reason)
      // A client that has left gets no answer.
      if (reason instanceof Cut && reason.outcome === 'left') return
      throw reason
    }
    beginAnswer(response, 200, [...headers, ...bodyHeaders(segments, coding)])
    response.setTimeout(stallLimitMs, () => cut.abort(new Cut('stalled')))
    const out = openClientWriter(response, cut.signal)
    const failure = await transfer({ first, body, out, signal: cut.signal })
    if (failure !== undefined) response.destroy()
    await permit.release()
    localsOf(response).observe(response, { status: 200, bytes: out.sent() })
    note(response, failure)
  }

  return {
    hasRoom: () => running.size < STREAMS_MAX,
    async send(response, stream) {
      const cut = new AbortController()
      const leave = (): void => cut.abort(new Cut('left'))
      response.once('close', leave)
      if (response.closed) leave()
      stream.permit.lost.addEventListener('abort', () => cut.abort(stream.permit.lost.reason), { once: true })
      const flowing = flow(response, stream, cut)
      running.set(cut, { flowing, isAccepted: stream.isAccepted })
      active.inc()
      try {
        await flowing
      } finally {
        response.off('close', leave)
        running.delete(cut)
        active.dec()
      }
    },
    async close() {
      const all = Promise.allSettled([...running.values()].map(({ flowing }) => flowing))
      const limit = setTimeout(() => {
        for (const cut of running.keys()) cut.abort(new Cut('stopped'))
      }, finishLimitMs)
      await all
      clearTimeout(limit)
      clearInterval(rechecking)
    },
  }
}

/** Counts the ends of streams, and logs those that the client did not choose. */
function openNotes(log: Log, metrics: Metrics): (response: Response, error: unknown) => void {
  const ended = metrics.counter('api_snapshot_streams_total', 'Bulk streams that ended.', ['outcome'])
  return (response, error) => {
    const outcome = error === undefined ? 'finished' : error instanceof Cut ? error.outcome : 'failed'
    ended.inc({ outcome })
    if (outcome === 'finished' || outcome === 'left') return
    log.warn({ err: error, request_id: localsOf(response).requestId, outcome }, 'a bulk stream was cut')
  }
}

/** Checks the keys of running streams, and cuts those whose key is not accepted any more. */
function recheck(running: ReadonlyMap<AbortController, RunningStream>): void {
  for (const [cut, { isAccepted }] of running) {
    isAccepted().then(
      isStillAccepted => void (isStillAccepted || cut.abort(new Cut('revoked'))),
      () => undefined,
    )
  }
}

/** A body whose first piece has been read, and its client. */
interface Transfer {
  first: IteratorResult<Buffer, void>
  body: AsyncGenerator<Buffer, void, void>
  out: ClientWriter
  signal: AbortSignal
}

function bodyHeaders(segments: PinnedSnapshot['segments'], coding: SnapshotStream['coding']): string[] {
  const encoding = coding === 'gzip' ? ['Content-Encoding', 'gzip'] : []
  return [...encoding, 'Content-Length', String(bodyLength(segments, coding))]
}

/** Sends a body to its client; returns what went wrong, if anything did. */
async function transfer({ first, body, out, signal }: Transfer): Promise<unknown> {
  try {
    for (let part = first; !part.done; part = await body.next()) await out.write(part.value)
    await out.end()
    return undefined
  } catch (error) {
    return signal.aborted ? signal.reason : error
  } finally {
    await body.return()
  }
}

/** The client's side of a stream. */
interface ClientWriter {
  /** Resolves when the system has taken all bytes. */
  write(bytes: Buffer): Promise<void>
  end(): Promise<void>
  /** Bytes taken so far. */
  sent(): number
}

function openClientWriter(response: Response, signal: AbortSignal): ClientWriter {
  let bytesSent = 0
  let waiting: PromiseWithResolvers<void> | undefined
  // The callback of a write may never run when the connection ends first.
  signal.addEventListener('abort', () => waiting?.reject(signal.reason), { once: true })
  const settled = async (begin: (done: (error?: Error | null) => void) => void): Promise<void> => {
    signal.throwIfAborted()
    const at = Promise.withResolvers<void>()
    waiting = at
    begin(error => (error ? at.reject(error) : at.resolve()))
    await at.promise
  }
  return {
    async write(bytes) {
      const { length } = bytes
      await settled(done => response.write(bytes, done))
      bytesSent += length
    },
    end: () => settled(done => response.end(done)),
    sent: () => bytesSent,
  }
}
