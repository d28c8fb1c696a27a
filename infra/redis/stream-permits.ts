/**
 * Counts the starts of bulk streams of a key, and lets only one of them run at a time.
 *
 * Writes two Redis keys per subject (a key on an endpoint), both in its hash tag: the starts of the last 24 hours, each at
 * its own time by Redis' clock, and a lease that its holder renews. One script reads both and takes both
 * or neither, so any number of processes together admit exactly as many starts as the limit allows.
 * States of a permit: held (renewed) → released, or lost when it could not be renewed in time; a process that dies
 * frees its permits by their expiry. Rejects when Redis does not answer: nothing starts uncounted.
 */
import { randomUUID } from 'node:crypto'
import { DAY_MS } from '#schemas/values/instant.ts'
import type { Redis } from './redis.ts'

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

export interface StreamPermits {
  /** The quota of a subject; takes nothing. */
  read(subject: string, limit: number): Promise<StreamQuota>
  start(subject: string, limit: number): Promise<StreamStart>
}

interface StreamPermitOptions {
  prefix: string
  /** How long a permit outlives a process that died. */
  leaseMs?: number
  renewEveryMs?: number
}

/** How far back starts count. */
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

/** KEYS: lease. ARGV: token, lease. A lease that is gone, with a lost store say, is taken again while it is free. */
const RENEW = `
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0`

/** KEYS: lease, starts. ARGV: token, whether the start is given back. */
const FREE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
if ARGV[2] == 'undo' then redis.call('ZREM', KEYS[2], ARGV[1]) end
return 1`

type TakeAnswer = [outcome: 'spent' | 'left' | 'busy' | 'started', remaining: number, resetAtMs: number, waitMs: number]

export function openStreamPermits(redis: Redis, options: StreamPermitOptions): StreamPermits {
  const { prefix, leaseMs = LEASE_MS, renewEveryMs = leaseMs / RENEWALS_PER_LEASE } = options
  const run = async (script: string, keys: readonly string[], args: readonly (string | number)[]): Promise<unknown> => {
    // A connection that is being made again would let requests wait.
    if (redis.status !== 'ready') throw new Error('Redis does not answer')
    return redis.eval(script, keys.length, ...keys, ...args)
  }
  const take = async (subject: string, limit: number, token?: string) => {
    const args = [DAY_MS, limit, ...(token === undefined ? [] : [token, leaseMs])]
    const [outcome, remaining, resetAtMs, waitMs] = (await run(TAKE, keysOf(subject, prefix), args)) as TakeAnswer
    const retryAfterSeconds = Math.max(1, Math.ceil(waitMs / 1000))
    return { outcome, quota: { limit, remaining, resetAt: Math.ceil(resetAtMs / 1000), retryAfterSeconds } }
  }
  return {
    read: async (subject, limit) => (await take(subject, limit)).quota,
    async start(subject, limit) {
      const token = randomUUID()
      const { outcome, quota } = await take(subject, limit, token)
      if (outcome === 'spent' || outcome === 'busy') return { kind: outcome, quota }
      const keys = keysOf(subject, prefix)
      const free = (how: 'release' | 'undo') => run(FREE, keys, [token, how])
      const renew = async () => (await run(RENEW, keys.slice(0, 1), [token, leaseMs])) === 1
      return { kind: 'started', quota, permit: holdPermit({ renew, free, leaseMs, renewEveryMs }) }
    },
  }
}

/** Keys of a subject: its lease and its starts. */
const keysOf = (subject: string, prefix: string): string[] => [
  `${prefix}{stream:${subject}}:lease`,
  `${prefix}{stream:${subject}}:starts`,
]

interface HeldPermit {
  renew(): Promise<boolean>
  free(how: 'release' | 'undo'): Promise<unknown>
  leaseMs: number
  renewEveryMs: number
}

function holdPermit({ renew, free, leaseMs, renewEveryMs }: HeldPermit): StreamPermit {
  const lost = new AbortController()
  let renewedAt = performance.now()
  const timer = setInterval(() => {
    const askedAt = performance.now()
    renew().then(
      isHeld => {
        if (isHeld) renewedAt = askedAt
        else lose()
      },
      () => {
        if (performance.now() - renewedAt > leaseMs) lose()
      },
    )
  }, renewEveryMs)
  const lose = (): void => {
    clearInterval(timer)
    lost.abort(new Error('the permit of a stream could not be renewed'))
  }
  const end = async (how: 'release' | 'undo'): Promise<void> => {
    clearInterval(timer)
    // What cannot be freed now expires by itself.
    await free(how).catch(() => undefined)
  }
  return { lost: lost.signal, release: () => end('release'), undo: () => end('undo') }
}
