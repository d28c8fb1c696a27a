/**
 * The role that keeps a view in Redis: it writes the version that the head of each of its partitions names, and builds one where there is
 * none of its form, or the log does not go on from it.
 *
 * States of a partition: waiting (its version is being built, with those of others that wait) -> open -> closed, when its head is not the
 * one that was left there: it is opened again. A partition that is sound is opened at once, whatever is built beside it.
 */
import { connectKafka } from '#infra/kafka/connection.ts'
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import { coalesce } from '#infra/runtime/async/coalesce.ts'
import type { RoleContext, RunningRole } from '#infra/runtime/role.ts'
import { build } from './build.ts'
import type { Position } from './positions.ts'
import { redisVersions } from './redis-store.ts'
import { isOfFormat, openRedisSink, readHead } from './redis-versions.ts'
import { runSink } from './sink-runner.ts'
import type { OwnedHead, RedisView } from './view.ts'

export async function runRedisView(context: RoleContext, view: RedisView): Promise<RunningRole> {
  const { config, metrics } = context
  const { namespace: prefix } = config
  const log = context.log.child({ role: view.name })
  const kafka = connectKafka({ config, role: view.name, log })
  const redis = await openRedis(config, { name: `${prefix}${view.name}`, log })
  const stop = new AbortController()
  const signal = AbortSignal.any([context.signal, stop.signal])
  const waiting = new Set<() => void>()
  const onProgress = (): void => {
    for (const progressed of waiting) progressed()
  }
  const built = coalesce(async (partitions: readonly number[]) => {
    const task = { config, log, signal, onProgress, isMissingOnly: true as const, acceptLoss: false }
    // In one order, since each has a lease.
    const sorted = [...new Set(partitions)].toSorted((one, other) => one - other)
    const result = await build(redisVersions(view, config, sorted), task)
    return partitions.map(() => result)
  })
  const companions = await view.companions?.(context, redis)
  const running = await runSink(context, kafka, {
    group: view.name,
    topics: view.topics,
    ...(view.maxBytesPerPartition && { maxBytesPerPartition: view.maxBytesPerPartition }),
    async open({ partition }, { faultOf, progressed }) {
      const of = { redis, prefix, partition }
      let found = await readHead(view, of)
      const reason = await reasonToBuild(view, found, faultOf)
      if (reason !== undefined) {
        waiting.add(progressed)
        const result = await built(partition).finally(() => waiting.delete(progressed))
        found = await readHead(view, of)
        log.warn({ partition, reason, ...result }, 'a version of a partition of the view was built')
      }
      if (found === undefined) throw new Error(`partition ${partition} of ${view.name} was lost again`)
      return openRedisSink(view, of, found, { metrics, companion: companions?.(of, found) })
    },
  })
  return {
    ...running,
    async stop() {
      stop.abort()
      await running.stop()
      await closeRedis(redis)
    },
  }
}

/** Why a partition is built before it is open. A view without a base stops where the log does not go on from it. */
async function reasonToBuild(
  view: RedisView,
  found: OwnedHead | undefined,
  faultOf: (stored: Position) => Promise<string | undefined>,
): Promise<string | undefined> {
  if (found === undefined) return 'there is none'
  if (!isOfFormat(view, found.head)) return 'it is in the form of another version'
  return view.base && faultOf(found.head)
}
