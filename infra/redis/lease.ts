/**
 * A lease, by which one of several processes does a task.
 *
 * Writes one key with an expiry. Invariant: no other process holds the lease while its holder renews it in time, and a
 * holder that was killed or frozen loses it to the next process that requests it after the expiry. A holder that was paused may
 * believe for a moment that it still holds it, so its writes must name {@link Lease.token} as their guard.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Redis } from './redis.ts'

export type Lease = ReturnType<typeof openLease>

const HOLD = `
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
if not holder and ARGV[3] == 'renew' then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return holder and 2 or 1`

const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return 1`

const WORK_LEASE_MS = 10_000
const RENEW_EVERY_MS = 2_500
const ASK_EVERY_MS = 250

/** Works while it holds leases; rejects where another holds one of them. The signal aborts where one is lost meanwhile. */
export async function withLeases<T>(
  redis: Redis,
  keys: readonly string[],
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const leases: { lease: Lease; lost: AbortSignal; stop(): void }[] = []
  try {
    for (const key of keys) {
      const lease = openLease(redis, key, WORK_LEASE_MS)
      // A holder that was killed keeps it until it expires.
      const limit = performance.now() + WORK_LEASE_MS + RENEW_EVERY_MS
      while (!(await lease.hold())) {
        if (performance.now() > limit) throw new Error(`another process holds ${key}`)
        await pause(ASK_EVERY_MS)
      }
      leases.push({ lease, ...keepLease(lease, RENEW_EVERY_MS) })
    }
    return await work(AbortSignal.any(leases.map(({ lost }) => lost)))
  } finally {
    for (const { stop } of leases) stop()
    await Promise.all(leases.map(({ lease }) => lease.release().catch(() => undefined)))
  }
}

/** Renews a lease that is held; `lost` aborts where another has taken it, or it could not be renewed in time. */
export function keepLease(lease: Lease, everyMs: number): { lost: AbortSignal; stop(): void } {
  const lost = new AbortController()
  const stop = (): void => clearInterval(timer)
  let renewedAt = performance.now()
  const renew = async (): Promise<void> => {
    const askedAt = performance.now()
    try {
      // A lease that is gone, with a lost store say, is taken again while it is free.
      if (await lease.hold()) {
        renewedAt = askedAt
        return
      }
    } catch {
      // Without an answer it is held until it expires.
      if (performance.now() - renewedAt <= lease.ttlMs) return
    }
    stop()
    lost.abort(new Error(`the lease ${lease.key} was lost`))
  }
  const timer = setInterval(() => void renew(), everyMs)
  return { lost: lost.signal, stop }
}

/** Opens a lease; nothing is held yet. */
export function openLease(redis: Redis, key: string, ttlMs: number) {
  const token = randomUUID()
  const run = async (how: 'acquire' | 'renew'): Promise<'taken' | 'renewed' | undefined> => {
    const answer = await redis.eval(HOLD, 1, key, token, String(ttlMs), how)
    return answer === 1 ? 'taken' : answer === 2 ? 'renewed' : undefined
  }
  return {
    key,
    ttlMs,
    /** Text of the key while this process holds the lease. */
    token: token as string,
    /** Takes or renews the lease. `taken`: it was free, and another may have held it since this process did; undefined: another holds it. */
    hold: () => run('acquire'),
    /** Renews the lease if it is still held; never takes it. */
    renew: async (): Promise<boolean> => (await run('renew')) !== undefined,
    async release(): Promise<void> {
      await redis.eval(RELEASE, 1, key, token)
    },
  }
}
