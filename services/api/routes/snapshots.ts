/**
 * POST /prices and POST /bids: all live asks or bids as NDJSON, from stored segments.
 *
 * Rules: DECISIONS.md, "Bulk snapshots". Its X-RateLimit-* are of the starts in 24 hours. Only a stream whose
 * first bytes have been read counts as a start; a 304 is none.
 */
import type { Request, Response } from 'express'
import type { z } from 'zod'
import type { TierLimits } from '#infra/config/tiers.ts'
import type { Credential } from '#infra/http/credential.ts'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { HttpError } from '#infra/http/http-error.ts'
import { bytes, isNamed, localsOf, SENT } from '#infra/http/reply.ts'
import type { StreamQuota, StreamStart } from '#infra/redis/stream-permits.ts'
import { bidEntry, priceEntry, snapshotQuery } from '#schemas/api/listing.ts'
import { json, PRO, type Reply, STARTER } from '#schemas/api/operation.ts'
import { type ExceededLimit, exceededLimit } from '#schemas/api/rate-limit.ts'
import { permits } from '#schemas/api/scopes.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { formatInstant } from '#schemas/values/instant.ts'
import type { PinnedSnapshot } from '#streams/live-view/reader.ts'
import { type ApiContext, INDEX_CODES } from '../context.ts'
import type { ContentCoding } from '../deflated-bodies.ts'
import { MONEY_NOTE, type SideOperation } from './listings.ts'

type QuotaName = keyof TierLimits & `${string}_stream_starts_per_day`

const DAY_SECONDS = 86_400
const STREAM =
  'One line per entry, fixed when the request begins. One stream per key at a time; the X-RateLimit headers report the stream starts of a rolling day.'
const STREAM_HEADERS = {
  'X-Snapshot-Timestamp': 'Moment of the snapshot, ISO 8601.',
  'X-Snapshot-Currency': 'Currency of all amounts: USD.',
  'X-Snapshot-Total': 'Number of lines.',
  ETag: 'Names the snapshot; sent as `If-None-Match`, an unchanged one is a 304 and no stream start.',
}
const STREAM_ERRORS = ['STREAM_ALREADY_ACTIVE', 'RATE_LIMIT_STREAM_QUOTA_EXCEEDED'] as const

const streamOf = <V>(name: string, schema: z.ZodType<V>, description: string): Reply<V> => ({
  ...json(name, schema, description),
  isStream: true,
  headers: STREAM_HEADERS,
})

export const snapshotRoutes = (api: ApiContext): Route[] => [
  streamSide(api, 'ask', 'prices_stream_starts_per_day', {
    id: 'streamPrices',
    path: '/prices',
    group: 'Prices',
    tiers: PRO,
    summary: 'All current asks as one stream',
    reply: streamOf('PriceEntry', priceEntry, 'Price entries, one JSON object a line.'),
  }),
  streamSide(api, 'bid', 'bids_stream_starts_per_day', {
    id: 'streamBids',
    path: '/bids',
    group: 'Bids',
    tiers: STARTER,
    summary: 'All current buy orders as one stream',
    reply: streamOf('BidEntry', bidEntry, 'Bid entries, one JSON object a line.'),
  }),
]

function streamSide(api: ApiContext, side: Side, quotaName: QuotaName, own: SideOperation): Route {
  const { registry, tiers, keys: directory, live, streamPermits, snapshotStreams, now } = api
  const keys = side === 'ask' ? registry.askKeys : registry.bidKeys
  const detail = `The snapshot of live ${side === 'ask' ? 'prices' : 'bids'} is temporarily unavailable.`
  const unavailable = (cause: unknown): never => {
    throw new HttpError(INDEX_CODES[side], detail, { cause })
  }
  const showQuota = (response: Response, { tier }: Credential, quota: StreamQuota): void => {
    const locals = localsOf(response)
    const { limit, remaining, resetAt } = quota
    const starts = { ...startsOf(quota), remaining, resetSeconds: Math.max(Math.ceil(resetAt - now() / 1000), 0) }
    const allowances = { ...locals.limits?.allowances, [starts.name]: starts }
    locals.limits = { tier, quota: { quota: limit, remaining }, resetAt, allowances }
  }
  const subjectOf = ({ lineageId }: Credential): string => `${side}:${lineageId}`
  return defineRoute({
    ...own,
    method: 'post',
    description: `${STREAM} ${MONEY_NOTE}`,
    query: snapshotQuery(keys),
    errors: [...STREAM_ERRORS, INDEX_CODES[side]],
    uncountedCode: INDEX_CODES[side],
    /** A request that only asks whether a snapshot has changed may not start a stream at all. */
    async admit({ credential, request, response }): Promise<void> {
      const quota = await streamPermits
        .read(subjectOf(credential), tiers[credential.tier][quotaName])
        .catch(unavailable)
      showQuota(response, credential, quota)
      if (quota.remaining === 0 && request.headers['if-none-match'] === undefined) {
        throw refusal({ kind: 'spent', quota })
      }
    },
    async handle({ query: { providers }, credential, request, response }) {
      const coding = codingOf(request)
      const chosen = providers ? keys.filter(key => providers.includes(key)) : keys
      const snapshot = await live.pinSnapshot(side, chosen).catch(unavailable)
      const headers = headersOf(snapshot, coding, now)
      if (isNamed(etagOf(snapshot, coding), request.headers['if-none-match'])) {
        return bytes(response, undefined, { status: 304, headers })
      }
      if (!snapshotStreams.hasRoom()) throw noRoom()
      const start = await streamPermits
        .start(subjectOf(credential), tiers[credential.tier][quotaName])
        .catch(unavailable)
      showQuota(response, credential, start.quota)
      if (start.kind !== 'started') throw refusal(start)
      const isAccepted = async (): Promise<boolean> => {
        const answer = await directory.authenticate(request.headers.authorization)
        return answer.accepted && permits(answer.credential.scopes, 'market:read')
      }
      const stream = { snapshot, coding, permit: start.permit, isAccepted, headers }
      await snapshotStreams.send(response, stream).catch(unavailable)
      return SENT
    },
  })
}

function codingOf(request: Request): ContentCoding {
  const coding = request.acceptsEncodings('gzip', 'identity')
  if (coding === 'gzip' || coding === 'identity') return coding
  throw new HttpError('BAD_REQUEST', 'Accept-Encoding refuses both gzip and identity, and there is no other coding.')
}

const etagOf = ({ name }: PinnedSnapshot, coding: ContentCoding): string => `"${name}-${coding}"`

/** A snapshot without lines is as old as the request. */
function headersOf(snapshot: PinnedSnapshot, coding: ContentCoding, now: () => number): string[] {
  return [
    ...['ETag', etagOf(snapshot, coding), 'Vary', 'Accept-Encoding', 'Cache-Control', 'private, no-cache'],
    ...['X-Snapshot-Timestamp', formatInstant(snapshot.updatedAt ?? now()), 'X-Snapshot-Currency', 'USD'],
    ...['X-Snapshot-Total', String(snapshot.lines)],
  ]
}

const startsOf = ({ limit, retryAfterSeconds }: StreamQuota): ExceededLimit =>
  exceededLimit('stream-starts', limit, retryAfterSeconds, DAY_SECONDS)

function refusal({ kind, quota }: Exclude<StreamStart, { kind: 'started' }>): HttpError {
  if (kind === 'busy') {
    const headers = ['Retry-After', String(quota.retryAfterSeconds)]
    return new HttpError('STREAM_ALREADY_ACTIVE', 'A stream of this key runs already; let it end first.', { headers })
  }
  const detail = `This key has started its ${quota.limit} streams of 24 hours; wait as Retry-After says.`
  return new HttpError('RATE_LIMIT_STREAM_QUOTA_EXCEEDED', detail, { exceeded: startsOf(quota) })
}

const noRoom = (): HttpError =>
  new HttpError('SERVICE_UNAVAILABLE', 'Too many streams run at the moment; try again soon.', {
    headers: ['Retry-After', '1'],
  })
