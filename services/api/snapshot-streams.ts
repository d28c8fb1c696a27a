/**
 * Sends bulk snapshots: one stream after the other to each key, as many at once as memory allows.
 *
 * Reads stored segments (infra/redis/value-stream.ts). States of a stream: started → flowing → finished, or cut: the client hung up,
 * took no byte for too long, its key was revoked, the source failed, the permit was lost, or the process stops. Invariant: a stream that
 * ends frees its permit at once, for whatever reason; a body that is not whole ends in a destroyed connection, never like a whole one.
 */
import type { Response } from 'express'
import { localsOf, stream } from '#infra/http/reply.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { StreamPermit } from '#infra/redis/stream-permits.ts'
import { readValues } from '#infra/redis/value-stream.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import type { RedisSettings } from '#infra/runtime/redis-settings.ts'
import type { PinnedSnapshot } from '#streams/live-view/reader.ts'
import { bodyLength, bodyOf, type ContentCoding } from './deflated-bodies.ts'

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

class Cut extends Error {
  readonly outcome: 'left' | 'stalled' | 'revoked' | 'stopped'

  constructor(outcome: Cut['outcome']) {
    super(`the stream was cut: ${outcome}`)
    this.outcome = outcome
  }
}

export function openSnapshotStreams(options: SnapshotStreamOptions) {
  const { settings, redis, log, metrics, stallLimitMs = STALL_LIMIT_MS, finishLimitMs = FINISH_LIMIT_MS } = options
  const active = metrics.gauge('api_snapshot_streams', 'Bulk streams that run.')
  const ended = metrics.counter('api_snapshot_streams_total', 'Bulk streams that ended.', ['outcome'])
  const running = new Map<AbortController, { ending: Promise<void>; isAccepted(): Promise<boolean> }>()

  /** Cuts streams whose key is not accepted any more; while that cannot be known they go on. */
  const rechecking = setInterval(() => {
    for (const [cut, { isAccepted }] of running) {
      isAccepted().then(
        isStillAccepted => void (isStillAccepted || cut.abort(new Cut('revoked'))),
        () => undefined,
      )
    }
  }, RECHECK_MS).unref()

  async function flow(response: Response, { snapshot, coding, permit, headers }: SnapshotStream, cut: AbortController) {
    const { signal } = cut
    const { segments } = snapshot
    const pieces = readValues({ settings, redis, keys: segments.map(({ key }) => key), signal })
    const encoding = coding === 'gzip' ? ['Content-Encoding', 'gzip'] : []
    const length = ['Content-Length', String(bodyLength(segments, coding))]
    signal.addEventListener('abort', () => response.headersSent && response.destroy(), { once: true })
    response.setTimeout(stallLimitMs, () => cut.abort(new Cut('stalled')))
    const body = bodyOf(segments, coding, pieces)
    const thrown = await stream(response, body, {
      type: 'application/x-ndjson',
      headers: [...headers, ...encoding, ...length],
    }).then(
      () => undefined,
      error => error,
    )
    const failure = signal.aborted ? signal.reason : thrown
    const outcome = failure === undefined ? 'finished' : failure instanceof Cut ? failure.outcome : 'failed'
    ended.inc({ outcome })
    if (outcome !== 'finished' && outcome !== 'left') {
      log.warn({ err: failure, request_id: localsOf(response).requestId, outcome }, 'a bulk stream was cut')
    }
    if (response.headersSent) {
      if (failure !== undefined) response.destroy()
      await permit.release()
    } else {
      await permit.undo()
      // A client that has left gets no answer.
      if (outcome !== 'left') throw failure
    }
  }

  return {
    hasRoom: () => running.size < STREAMS_MAX,

    /** Sends a snapshot; resolves when the stream has ended, however. Rejects, having sent nothing, when it cannot begin. */
    async send(response: Response, one: SnapshotStream): Promise<void> {
      const cut = new AbortController()
      const leave = (): void => cut.abort(new Cut('left'))
      response.once('close', leave)
      if (response.closed) leave()
      const { lost } = one.permit
      lost.addEventListener('abort', () => cut.abort(lost.reason), { once: true })
      const ending = flow(response, one, cut)
      running.set(cut, { ending, isAccepted: one.isAccepted })
      active.inc()
      try {
        await ending
      } finally {
        response.off('close', leave)
        running.delete(cut)
        active.dec()
      }
    },

    /** Lets streams finish for a while, then cuts them; resolves when all permits are free. */
    async close(): Promise<void> {
      const all = Promise.allSettled([...running.values()].map(({ ending }) => ending))
      const limit = setTimeout(() => {
        for (const cut of running.keys()) cut.abort(new Cut('stopped'))
      }, finishLimitMs)
      await all
      clearTimeout(limit)
      clearInterval(rechecking)
    },
  }
}

interface SnapshotStream {
  snapshot: PinnedSnapshot
  coding: ContentCoding
  permit: StreamPermit
  /** Whether its key is still accepted; after a rejection the stream goes on. */
  isAccepted(): Promise<boolean>
  /** Of the answer, but for those of its type, length and coding. */
  headers: readonly string[]
}
