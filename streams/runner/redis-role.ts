import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import type { RoleContext, RunningRole } from '#infra/runtime/role.ts'
import { runBuiltView } from './built-role.ts'
import { redisVersions } from './redis-store.ts'
import { isOfFormat, openRedisSink, readHead } from './redis-versions.ts'
import type { RedisView } from './view.ts'

export const runRedisView = (context: RoleContext, view: RedisView): Promise<RunningRole> =>
  runBuiltView(context, view, async log => {
    const { config, metrics } = context
    const { namespace: prefix } = config
    const redis = await openRedis(config, { name: `${prefix}${view.name}`, log })
    const companions = await view.companions?.(context, redis)
    return {
      versions: partitions => redisVersions(view, config, partitions),
      async reasonToBuild({ partition }, faultOf) {
        const head = (await readHead(view, { redis, prefix, partition }))?.head
        if (head === undefined) return 'there is none'
        if (!isOfFormat(view, head)) return 'it is in the form of another version'
        // A view without a base stops where the log does not go on from it.
        return view.base && faultOf(head)
      },
      async open({ partition }) {
        const of = { redis, prefix, partition }
        const stored = await readHead(view, of)
        if (stored === undefined) throw new Error(`partition ${partition} of ${view.name} was lost again`)
        return openRedisSink(view, of, stored, { metrics, companion: companions?.(of, stored) })
      },
      close: () => closeRedis(redis),
    }
  })
