/**
 * Concurrent leases of streams: open connections of a key, counted over all processes.
 *
 * Writes one sorted set per subject: a member per lease, scored by when it expires on Redis' clock; and a hash of who holds the leases that
 * have names. States of a lease: held (renewed) -> released, expired with the process that held it, or replaced: taken again by its
 * name, which its first holder learns within a renewal. Invariant: all processes together never hold more than the limit, unless a
 * process that was paused beyond its leases' expiry comes back and renews them: what is open counts. Rejects when Redis does not
 * answer: no stream opens uncounted.
 */
import { randomUUID } from 'node:crypto'
import { type Redis, requireReady } from './redis.ts'

export interface StreamLease {
  /** Frees it; once, however often it is called. */
  release(): void
  /** Aborts when another has taken it by its name. */
  readonly replaced: AbortSignal
}

export type StreamLeases = ReturnType<typeof openStreamLeases>

interface StreamLeaseOptions {
  prefix: string
  /** Kind of the leases; part of the keys. */
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

/** KEYS: leases, holders. ARGV: lease in milliseconds, limit, name, holder. */
const TAKE = `${NOW}
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
if not redis.call('ZSCORE', KEYS[1], ARGV[3]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[3])
redis.call('HSET', KEYS[2], ARGV[3], ARGV[4])
for i = 1, 2 do redis.call('PEXPIRE', KEYS[i], ARGV[1]) end
return 1`

/**
 * KEYS: leases, holders. ARGV: lease in milliseconds, then names and holders. Returns the holders that were replaced; leases that are gone,
 * with a lost store say, are taken again.
 */
const RENEW = `${NOW}
local replaced = {}
for i = 2, #ARGV, 2 do
  local holder = redis.call('HGET', KEYS[2], ARGV[i])
  if holder and holder ~= ARGV[i + 1] then
    replaced[#replaced + 1] = ARGV[i + 1]
  else
    redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[i])
    redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1])
  end
end
for i = 1, 2 do redis.call('PEXPIRE', KEYS[i], ARGV[1]) end
return replaced`

/** KEYS: leases, holders. ARGV: name, holder. */
const RELEASE = `
if redis.call('HGET', KEYS[2], ARGV[1]) == ARGV[2] then
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('HDEL', KEYS[2], ARGV[1])
end
return 1`

interface HeldLease {
  name: string
  replace: AbortController
}

export function openStreamLeases(redis: Redis, options: StreamLeaseOptions) {
  const { prefix, name: kind, leaseMs = LEASE_MS } = options
  /** Subject -> holder -> lease. */
  const leasesOf = new Map<string, Map<string, HeldLease>>()
  const sent = new Set<Promise<unknown>>()
  const keysOf = (subject: string): [string, string] => [
    `${prefix}{${kind}:${subject}}:places`,
    `${prefix}{${kind}:${subject}}:holders`,
  ]
  const drop = (subject: string, holder: string): boolean => {
    const own = leasesOf.get(subject)
    const isHeld = own?.delete(holder) ?? false
    if (own?.size === 0) leasesOf.delete(subject)
    return isHeld
  }
  const replace = (subject: string, holder: string): void => {
    const lease = leasesOf.get(subject)?.get(holder)
    if (drop(subject, holder)) lease?.replace.abort()
  }
  /** A failure is made good by the next renewal, or by expiry. */
  const send = (work: Promise<unknown>): void => {
    const done = work.catch(() => undefined).finally(() => sent.delete(done))
    sent.add(done)
  }
  const renew = async (subject: string, leases: ReadonlyMap<string, HeldLease>): Promise<void> => {
    const members = [...leases].flatMap(([holder, { name }]) => [name, holder])
    const replaced = (await redis.eval(RENEW, 2, ...keysOf(subject), leaseMs, ...members)) as string[]
    for (const holder of replaced) replace(subject, holder)
  }
  let round = leasesOf.entries()
  const timer = setInterval(
    () => {
      if (redis.status !== 'ready') return
      for (let left = Math.ceil(leasesOf.size / PARTS_PER_RENEWAL); left > 0; left--) {
        let next = round.next()
        if (next.done) {
          round = leasesOf.entries()
          next = round.next()
        }
        if (next.done) return
        send(renew(...next.value))
      }
    },
    leaseMs / RENEWALS_PER_LEASE / PARTS_PER_RENEWAL,
  )
  return {
    /** A lease, or undefined when the subject holds `max` already. One that is taken by a name replaces the one of that name. */
    async take(subject: string, max: number, name: string = randomUUID()): Promise<StreamLease | undefined> {
      requireReady(redis)
      const holder = randomUUID()
      if ((await redis.eval(TAKE, 2, ...keysOf(subject), leaseMs, max, name, holder)) !== 1) return undefined
      const leases = leasesOf.get(subject) ?? new Map<string, HeldLease>()
      for (const [earlier, lease] of leases) if (lease.name === name) replace(subject, earlier)
      const controller = new AbortController()
      leasesOf.set(subject, leases.set(holder, { name, replace: controller }))
      return {
        replaced: controller.signal,
        release() {
          if (drop(subject, holder) && redis.status === 'ready')
            send(redis.eval(RELEASE, 2, ...keysOf(subject), name, holder))
        },
      }
    },
    /** Ends the renewal; resolves when all that was released has been sent. */
    async close(): Promise<void> {
      clearInterval(timer)
      await Promise.all(sent)
    },
  }
}
