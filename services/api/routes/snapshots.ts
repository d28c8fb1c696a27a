/**
 * POST /prices and POST /bids: all live asks or bids as NDJSON, from stored segments.
 *
 * Rules: DECISIONS.md, "Bulk snapshots". Its X-RateLimit-* are of the starts in 24 hours. Invariant: only a stream whose
 * first bytes have been read counts as a start; a 304 is none.
 */
import type { Request, Response, Router } from 'express'
import type { TierLimits } from '#infra/config/tiers.ts'
import type { StreamQuota, StreamStart } from '#infra/redis/stream-slots.ts'
import { snapshotQuery } from '#schemas/api/listing.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import type { PinnedSnapshot } from '#streams/live-view/reader.ts'
import { type ContentCoding, chooseCoding, isNamed } from '../content-coding.ts'
import { ApiError } from '../errors.ts'
import { type Allow, credentialOf } from '../guard.ts'
import type { ApiParts } from '../parts.ts'
import { snapshotUnavailable } from '../queries/live-view.ts'
import { localsOf, sendEmpty } from '../reply.ts'
import { parse } from '../request.ts'

/** Adds both routes. */
export function addSnapshotRoutes(router: Router, allow: Allow, parts: ApiParts): void {
  router.post('/prices', allow('pro', 'quant'), answerSide(parts, 'ask', 'prices_stream_starts_per_day'))
  router.post('/bids', allow('starter', 'pro', 'quant'), answerSide(parts, 'bid', 'bids_stream_starts_per_day'))
}

type QuotaName = keyof TierLimits & `${string}_stream_starts_per_day`

function answerSide(parts: ApiParts, side: Side, quotaName: QuotaName) {
  const { keys: directory, registry, tiers, streamSlots, snapshotStreams } = parts
  const keys = side === 'ask' ? registry.askKeys : registry.bidKeys
  const schema = snapshotQuery(keys)

  return async (request: Request, response: Response): Promise<void> => {
    const { keyId, tier } = credentialOf(response)
    const limit = tiers[tier][quotaName]
    const subject = `${side}:${keyId}`
    const showQuota = (quota: StreamQuota): void => {
      localsOf(response).rateHeaders = quotaHeaders(quota, tier)
    }
    const unavailable = (cause: unknown): never => {
      throw snapshotUnavailable(side, cause)
    }
    const quota = await streamSlots.read(subject, limit).catch(unavailable)
    showQuota(quota)
    // A request that only asks whether a snapshot has changed may not start a stream at all.
    const known = request.headers['if-none-match']
    if (quota.remaining === 0 && known === undefined) throw refusal({ kind: 'spent', quota })

    const { providers } = parse(schema, request)
    const coding = codingOf(request)
    const chosen = providers ? keys.filter(key => providers.includes(key)) : keys
    const snapshot = await parts.live.pinSnapshot(side, chosen)
    const headers = headersOf(snapshot, coding, parts.now)
    if (isNamed(etagOf(snapshot, coding), known)) return sendEmpty(response, 304, headers)

    if (!snapshotStreams.hasRoom()) throw noRoom()
    const start = await streamSlots.start(subject, limit).catch(unavailable)
    showQuota(start.quota)
    if (start.kind !== 'started') throw refusal(start)
    const content = ['Content-Type', 'application/x-ndjson']
    const isAccepted = async (): Promise<boolean> => (await directory.judge(request.headers.authorization)).accepted
    const stream = { snapshot, coding, slot: start.slot, isAccepted, headers: [...content, ...headers] }
    await snapshotStreams.send(response, stream).catch(unavailable)
  }
}

function codingOf(request: Request): ContentCoding {
  const coding = chooseCoding(request.headers['accept-encoding'])
  if (coding) return coding
  throw new ApiError('BAD_REQUEST', 'Accept-Encoding refuses both gzip and identity, and there is no other coding.')
}

const etagOf = ({ name }: PinnedSnapshot, coding: ContentCoding): string => `"${name}-${coding}"`

const SHOWN = 'ETag, X-Snapshot-Timestamp, X-Snapshot-Currency, X-Snapshot-Total'

/** A snapshot without lines is as old as the request. */
function headersOf(snapshot: PinnedSnapshot, coding: ContentCoding, now: () => number): string[] {
  return [
    ...['ETag', etagOf(snapshot, coding), 'Vary', 'Accept-Encoding', 'Cache-Control', 'private, no-cache'],
    ...['X-Snapshot-Timestamp', formatInstant(snapshot.updatedAt ?? now()), 'X-Snapshot-Currency', 'USD'],
    ...['X-Snapshot-Total', String(snapshot.lines), 'Access-Control-Expose-Headers', SHOWN],
  ]
}

function quotaHeaders({ limit, remaining, resetAt }: StreamQuota, tier: string): string[] {
  return [
    ...['X-RateLimit-Limit', String(limit), 'X-RateLimit-Remaining', String(remaining)],
    ...['X-RateLimit-Reset', String(resetAt), 'X-RateLimit-Tier', tier],
  ]
}

function refusal({ kind, quota }: Exclude<StreamStart, { kind: 'started' }>): ApiError {
  const headers = ['Retry-After', String(quota.retryAfterSeconds)]
  if (kind === 'busy') {
    return new ApiError('STREAM_ALREADY_ACTIVE', 'A stream of this key runs already; let it end first.', { headers })
  }
  const detail = `This key has started its ${quota.limit} streams of 24 hours; wait as Retry-After says.`
  return new ApiError('RATE_LIMIT_STREAM_QUOTA_EXCEEDED', detail, { headers })
}

const noRoom = (): ApiError =>
  new ApiError('SERVICE_UNAVAILABLE', 'Too many streams run at the moment; try again soon.', {
    headers: ['Retry-After', '1'],
  })
