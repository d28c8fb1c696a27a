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

/** A lease on a key. */
export interface Lease {
  readonly key: string
  /** What the key holds while this process holds the lease. */
  readonly token: string
  /**
   * Takes or renews the lease. `taken`: it was free, and another may have held it since this process did; undefined: another holds it.
   */
  hold(): Promise<'taken' | 'renewed' | undefined>
  /** Renews the lease if it is still held; never takes it. */
  renew(): Promise<boolean>
  /** Gives it up, if it is held. */
  release(): Promise<void>
}

const HOLD = `
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
if not holder and ARGV[3] == 'renew' then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return holder and 2 or 1`

const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return 1`

const ASK_EVERY_MS = 250

/** Takes a lease, waiting for the expiry of a holder that was killed; false when another still holds it after the limit. */
export async function holdWithin(lease: Lease, limitMs: number): Promise<boolean> {
  const limit = performance.now() + limitMs
  for (;;) {
    if (await lease.hold()) return true
    if (performance.now() > limit) return false
    await pause(ASK_EVERY_MS)
  }
}

/** Opens a lease; nothing is held yet. */
export function openLease(redis: Redis, key: string, ttlMs: number): Lease {
  const token = randomUUID()
  const run = async (how: 'take' | 'renew'): Promise<'taken' | 'renewed' | undefined> => {
    const answer = await redis.eval(HOLD, 1, key, token, String(ttlMs), how)
    return answer === 1 ? 'taken' : answer === 2 ? 'renewed' : undefined
  }
  return {
    key,
    token,
    hold: () => run('take'),
    renew: async () => (await run('renew')) !== undefined,
    async release() {
      await redis.eval(RELEASE, 1, key, token)
    },
  }
}
