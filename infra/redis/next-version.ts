import type { Redis } from './redis.ts'

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
