/**
 * Concurrent leases of streams: open connections of a key, counted over all processes.
 *
 * Writes one sorted set per subject: a token per lease, scored by when it expires on Redis' clock. States of
 * a lease: held (renewed) → released, or expired with the process that held it. Invariant: all processes together never hold
 * more than the limit, unless a process that was paused beyond its leases' expiry comes back and renews them: what is
 * open counts. Rejects when Redis does not answer: no stream opens uncounted.
 */
import { randomUUID } from 'node:crypto'
import type { Redis } from './redis.ts'

/** A lease that is held. */
export interface StreamLease {
  /** Frees it; once, however often it is called. */
  release(): void
}

/** Counts leases. */
export interface StreamLeases {
  /** A lease, or undefined when the subject holds `max` already. */
  take(subject: string, max: number): Promise<StreamLease | undefined>
  /** Ends the renewal; resolves when all that was released has been sent. */
  close(): Promise<void>
}

/** Where and for how long. */
interface StreamLeaseOptions {
  /** Of all keys. */
  prefix: string
  /** What is counted; part of the keys. */
  name: string
  /** How long a lease outlives a process that died. */
  leaseMs?: number
}

const LEASE_MS = 12_000
/** Two renewals may fail before a lease is lost. */
const RENEWALS_PER_LEASE = 3
/** Thousands of subjects at once would hold up all else that the process does. */
const PARTS_PER_RENEWAL = 20

const NOW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
`

/** KEYS: leases. ARGV: lease in milliseconds, limit, token. */
const TAKE = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1`

/** KEYS: leases. ARGV: lease in milliseconds, then tokens. Those that are gone, with a lost store say, are taken again. */
const RENEW = `${NOW}
for i = 2, #ARGV do redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[i]) end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1`

/** Opens the leases of a namespace. */
export function openStreamLeases(redis: Redis, options: StreamLeaseOptions): StreamLeases {
  const { prefix, name, leaseMs = LEASE_MS } = options
  const held = new Map<string, Set<string>>()
  const sent = new Set<Promise<unknown>>()
  const keyOf = (subject: string): string => `${prefix}{${name}:${subject}}:places`
  const drop = (subject: string, token: string): boolean => {
    const tokens = held.get(subject)
    const isHeld = tokens?.delete(token) ?? false
    if (tokens?.size === 0) held.delete(subject)
    return isHeld
  }
  /** What fails is made good by the next renewal, or by expiry. */
  const send = (work: Promise<unknown>): void => {
    const done = work.catch(() => undefined).finally(() => sent.delete(done))
    sent.add(done)
  }
  let round = held.entries()
  const timer = setInterval(
    () => {
      if (redis.status !== 'ready') return
      for (let left = Math.ceil(held.size / PARTS_PER_RENEWAL); left > 0; left--) {
        let next = round.next()
        if (next.done) {
          round = held.entries()
          next = round.next()
        }
        if (next.done) return
        const [subject, tokens] = next.value
        send(redis.eval(RENEW, 1, keyOf(subject), leaseMs, ...tokens))
      }
    },
    leaseMs / RENEWALS_PER_LEASE / PARTS_PER_RENEWAL,
  )
  return {
    async take(subject, max) {
      // A connection that is being made again would let requests wait.
      if (redis.status !== 'ready') throw new Error('Redis does not answer')
      const token = randomUUID()
      if ((await redis.eval(TAKE, 1, keyOf(subject), leaseMs, max, token)) !== 1) return undefined
      const tokens = held.get(subject) ?? new Set()
      held.set(subject, tokens.add(token))
      return {
        release() {
          if (drop(subject, token) && redis.status === 'ready') send(redis.zrem(keyOf(subject), token))
        },
      }
    },
    async close() {
      clearInterval(timer)
      await Promise.all(sent)
    },
  }
}
