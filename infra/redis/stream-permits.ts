/**
 * Counts the starts of bulk streams of a key, and lets only one of them run at a time.
 *
 * Writes two Redis keys per subject (a key on an endpoint), both in its hash tag: the starts of the last 24 hours, each at
 * its own time by Redis' clock, and a lease that its holder renews. One script reads both and takes both
 * or neither, so any number of processes together admit exactly as many starts as the limit allows.
 * States of a permit: held (renewed) → released, or lost when it could not be renewed in time; a process that dies
 * frees its permits by their expiry. Rejects when Redis does not answer: nothing starts uncounted.
 */
import { DAY_MS } from '#schemas/values/instant.ts'
import { keepLease, openLease } from './lease.ts'
import { type Redis, requireReady } from './redis.ts'

export interface StreamQuota {
  limit: number
  remaining: number
  /** Unix time in seconds at which the oldest start leaves the window. */
  resetAt: number
  /** Seconds until a start may be tried again, at least 1; of interest when it was refused. */
  retryAfterSeconds: number
}

export interface StreamPermit {
  /** Aborts when the permit was lost: another stream may run from now on. */
  readonly lost: AbortSignal
  /** Frees the permit; never rejects. */
  release(): Promise<void>
  /** Frees the permit and gives the start back: nothing was streamed. Never rejects. */
  undo(): Promise<void>
}

export type StreamStart =
  | { kind: 'started'; permit: StreamPermit; quota: StreamQuota }
  | { kind: 'spent'; quota: StreamQuota }
  | { kind: 'busy'; quota: StreamQuota }

/** How long a permit outlives a process that died. */
const LEASE_MS = 15_000
/** Two renewals may fail before a permit is lost. */
const RENEWALS_PER_LEASE = 3

/** KEYS: lease, starts. ARGV: window, limit, then for a start: token, lease. */
const TAKE = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local window, limit, token = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now - window)
local used = redis.call('ZCARD', KEYS[2])
local function leaves(nth)
  local start = redis.call('ZRANGE', KEYS[2], nth, nth, 'WITHSCORES')
  return (start[2] or now) + window
end
if used >= limit then return {'spent', 0, leaves(0), leaves(used - limit) - now} end
if not token then return {'left', limit - used, leaves(0), 0} end
if not redis.call('SET', KEYS[1], token, 'NX', 'PX', ARGV[4]) then
  return {'busy', limit - used, leaves(0), redis.call('PTTL', KEYS[1])}
end
redis.call('ZADD', KEYS[2], now, token)
redis.call('PEXPIRE', KEYS[2], window)
return {'started', limit - used - 1, leaves(0), 0}`

type TakeAnswer = [outcome: 'spent' | 'left' | 'busy' | 'started', remaining: number, resetAtMs: number, waitMs: number]

export function openStreamPermits(redis: Redis, options: { prefix: string; leaseMs?: number; renewEveryMs?: number }) {
  const { prefix, leaseMs = LEASE_MS, renewEveryMs = leaseMs / RENEWALS_PER_LEASE } = options
  /** Keys of a subject: its lease and its starts. */
  const keysOf = (subject: string) =>
    [`${prefix}{stream:${subject}}:lease`, `${prefix}{stream:${subject}}:starts`] as const
  const take = async (subject: string, limit: number, ...lease: [token: string, leaseMs: number] | []) => {
    requireReady(redis)
    const answer = await redis.eval(TAKE, 2, ...keysOf(subject), DAY_MS, limit, ...lease)
    const [outcome, remaining, resetAtMs, waitMs] = answer as TakeAnswer
    const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1000))
    return { outcome, quota: { limit, remaining, resetAt: Math.ceil(resetAtMs / 1000), retryAfterSeconds } }
  }
  return {
    /** The quota of a subject; takes nothing. */
    read: async (subject: string, limit: number): Promise<StreamQuota> => (await take(subject, limit)).quota,
    async start(subject: string, limit: number): Promise<StreamStart> {
      const [key, starts] = keysOf(subject)
      const lease = openLease(redis, key, leaseMs)
      const { outcome, quota } = await take(subject, limit, lease.token, leaseMs)
      if (outcome === 'spent' || outcome === 'busy') return { kind: outcome, quota }
      const { lost, stop } = keepLease(lease, renewEveryMs)
      const end = async (giveBack: () => Promise<unknown>): Promise<void> => {
        stop()
        // What cannot be freed now expires by itself.
        if (redis.status === 'ready') await Promise.allSettled([giveBack(), lease.release()])
      }
      const permit: StreamPermit = {
        lost,
        release: () => end(async () => undefined),
        undo: () => end(() => redis.zrem(starts, lease.token)),
      }
      return { kind: 'started', quota, permit }
    },
  }
}
