/**
 * Replaces a text that names other keys, on the condition that guard keys are as expected.
 *
 * One script, carried out by Redis as a whole. The keys that the text names were written before, with an
 * expiry, so a writer that dies in between leaves nothing behind; here their expiry is lifted. Invariant: a reader of
 * the text finds the keys that it names; the keys that only the former text named expire after a time. All keys must share one hash tag.
 */
import type { Redis } from './redis.ts'

/** A publication on a condition. */
export interface GuardedPublication {
  /** Keys and what they must hold (null: absent). */
  guards: readonly { key: string; expected: string | null }[]
  key: string
  text: string
  /** Keys that the text names for the first time. */
  named: readonly string[]
  /** Keys that it no longer names. */
  replaced: readonly string[]
  /** How long those stay. */
  replacedTtlMs: number
}

const SCRIPT = `
local guards, named = tonumber(ARGV[3]), tonumber(ARGV[4])
for i = 1, guards do
  local found = redis.call('GET', KEYS[1 + i])
  if ARGV[4 + i] == '' then
    if found then return 0 end
  elseif found ~= ARGV[4 + i] then
    return 0
  end
end
for i = 2 + guards, 1 + guards + named do
  if redis.call('EXISTS', KEYS[i]) == 0 then return 0 end
end
for i = 2 + guards, 1 + guards + named do redis.call('PERSIST', KEYS[i]) end
for i = 2 + guards + named, #KEYS do redis.call('PEXPIRE', KEYS[i], ARGV[2]) end
redis.call('SET', KEYS[1], ARGV[1])
return 1`

/** Publishes; false, having changed nothing, when a guard is not as expected or a named key is not there. */
export async function publishGuarded(redis: Redis, publication: GuardedPublication): Promise<boolean> {
  const { guards, key, text, named, replaced, replacedTtlMs } = publication
  const keys = [key, ...guards.map(guard => guard.key), ...named, ...replaced]
  const args = [text, String(replacedTtlMs), String(guards.length), String(named.length)]
  const expected = guards.map(guard => guard.expected ?? '')
  return (await redis.eval(SCRIPT, keys.length, ...keys, ...args, ...expected)) === 1
}
