/**
 * Writes many keys at once on the condition that guard keys are still as their owner left them.
 *
 * One script, carried out by Redis as a whole: compare the guards, write. Invariant: either everything is written or nothing, and nothing
 * when another process has written a guard, however long this process was paused in between. All keys must share one hash tag.
 */
import { Command } from 'ioredis'
import type { Redis } from './redis.ts'

/** One command on one key; one without arguments does nothing, but for PERSIST. */
export interface KeyWrite {
  command: 'SET' | 'HSET' | 'HDEL' | 'ZADD' | 'ZREM' | 'PERSIST' | 'PEXPIRE'
  key: string
  args: readonly string[]
}

interface GuardedWrite {
  /** Keys and their texts before the write: a text, nothing (null), or anything at all (undefined). */
  guards: readonly { key: string; expected: string | null | undefined }[]
  writes: readonly KeyWrite[]
}

/** Lua hands at most some 8,000 values to one call. */
const ARGS_PER_CALL = 4_000

const SCRIPT = `
local guards = tonumber(ARGV[1])
for i = 1, guards do
  local found, kind = redis.call('EXISTS', KEYS[i]) == 1, ARGV[2 * i]
  if found == (kind == 'absent') then return 0 end
  if kind == 'equal' and redis.call('GET', KEYS[i]) ~= ARGV[2 * i + 1] then return 0 end
end
local at = 2 + 2 * guards
for i = 1 + guards, #KEYS do
  local count = tonumber(ARGV[at + 1])
  redis.call(ARGV[at], KEYS[i], unpack(ARGV, at + 2, at + 1 + count))
  at = at + 2 + count
end
return 1`

/** Carries out a write; false, having written nothing, where a guard is not as expected. */
export async function writeGuarded(redis: Redis, { guards, writes }: GuardedWrite): Promise<boolean> {
  const keys = guards.map(({ key }) => key)
  const args = [String(guards.length)]
  for (const { expected } of guards)
    args.push(expected === undefined ? 'present' : expected === null ? 'absent' : 'equal', expected ?? '')
  for (const { command, key, args: all } of writes) {
    for (let from = 0; from < all.length || (from === 0 && command === 'PERSIST'); from += ARGS_PER_CALL) {
      const some = all.slice(from, from + ARGS_PER_CALL)
      keys.push(key)
      args.push(command, String(some.length), ...some)
    }
  }
  const command = new Command('eval', [SCRIPT, String(keys.length), ...keys, ...args], { replyEncoding: 'utf8' })
  redis.sendCommand(command)
  return (await command.promise) === 1
}

/**
 * A text that names other keys, instead of one that named others. Those that it names were written before, with an expiry, so a writer
 * that dies in between leaves nothing behind; here that is lifted. Those that only the former text named expire after a time.
 */
export function writesOfNames(
  key: string,
  text: string,
  { named, replaced, replacedTtlMs }: { named: readonly string[]; replaced: readonly string[]; replacedTtlMs: number },
): GuardedWrite {
  return {
    guards: named.map(each => ({ key: each, expected: undefined })),
    writes: [
      ...named.map((each): KeyWrite => ({ command: 'PERSIST', key: each, args: [] })),
      ...replaced.map((each): KeyWrite => ({ command: 'PEXPIRE', key: each, args: [String(replacedTtlMs)] })),
      { command: 'SET', key, args: [text] },
    ],
  }
}

/**
 * The counter follows Redis' clock: by itself it would fall back with a failover and name other content like what
 * readers or writers of before still have.
 */
const NEXT_VERSION = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local version = math.max(tonumber(redis.call('GET', KEYS[1]) or '0') + 1, now)
redis.call('SET', KEYS[1], string.format('%.0f', version))
return version`

/** A number of a counter that is higher than all before it, one whose trace a failover has lost included. */
export const nextVersion = async (redis: Redis, key: string): Promise<number> =>
  Number(await redis.eval(NEXT_VERSION, 1, key))
