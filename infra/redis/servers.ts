/**
 * Asks each server of a connection by itself: its keys, its slots, its eviction policy.
 *
 * Reads alone. A Cluster's keys are those of all its masters together.
 */
import type { Log } from '../runtime/log.ts'
import type { RedisSettings } from '../runtime/redis-settings.ts'
import { mastersOf, openServers, type Redis, RedisRefusal } from './redis.ts'

/**
 * Keys that match a pattern, page by page. A key may come twice; one whose slot moves meanwhile may come not at all
 * ({@link readSlots}).
 */
export async function* scanKeys(redis: Redis, pattern: string, count: number): AsyncGenerator<string[], void, void> {
  for (const server of mastersOf(redis)) {
    let cursor = '0'
    do {
      const [next, keys] = await server.scan(cursor, 'MATCH', pattern, 'COUNT', count)
      if (keys.length > 0) yield keys
      cursor = next
    } while (cursor !== '0')
  }
}

/** The slots that each master of a Cluster serves, empty for any other server; undefined while one is moving. */
export async function readSlots(redis: Redis): Promise<string | undefined> {
  if (!redis.isCluster) return ''
  const lines = await Promise.all(
    mastersOf(redis).map(async server => {
      const nodes = (await server.cluster('NODES')) as string
      const [id = '', , , , , , , , ...slots] =
        nodes
          .split('\n')
          .find(line => line.includes('myself'))
          ?.split(' ') ?? []
      return [id, ...slots].join(' ')
    }),
  )
  const text = lines.sort().join('\n')
  return text.includes('[') ? undefined : text
}

/** A server that may not hold what the platform keeps in it; the message says what to set. */
export class UnfitRedis extends RedisRefusal {}

const KEEPS_ALL = 'noeviction'

/** Throws {@link UnfitRedis} when a server, or a replica that may take its place, drops keys to make room. */
export async function requireNoEviction(settings: RedisSettings, log: Log): Promise<void> {
  const servers = await openServers(settings, { name: 'set-up', log })
  try {
    for (const { redis, name } of servers.opened) {
      const policy = await readPolicy(redis)
      if (policy === undefined) log.warn({ server: name }, 'Redis does not say what it does when its memory is full')
      else if (policy !== KEEPS_ALL) throw new UnfitRedis(refusalOf(name, policy))
    }
  } finally {
    await servers.close()
  }
}

const refusalOf = (name: string, policy: string): string =>
  `Redis at ${name} drops keys when its memory is full (maxmemory-policy ${policy}): views, counters and leases would ` +
  `be lost unseen. Set maxmemory-policy ${KEEPS_ALL} on every server (CONFIG SET maxmemory-policy ${KEEPS_ALL}, and in its file)`

/** Managed servers often refuse CONFIG, and INFO says the same. */
async function readPolicy(redis: Redis): Promise<string | undefined> {
  const info = await redis.info('memory').catch(() => '')
  const [, policy] = /^maxmemory_policy:(\S+)/m.exec(info) ?? []
  if (policy !== undefined) return policy
  const [, setting] = (await redis.config('GET', 'maxmemory-policy').catch(() => [])) as string[]
  return setting
}
