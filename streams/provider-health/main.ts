/**
 * The role `provider-health`: market.refreshes to each provider's health in Redis.
 *
 * Consumer group `provider-health`. The topic has one partition, so one process works and others are standby.
 */
import { connectKafka } from '#infra/kafka/connection.ts'
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { runSink } from '#streams/runner/sink-runner.ts'
import { openHealthSink } from './sink.ts'

/** Starts the role. */
export const start: StartRole = async context => {
  const { config } = context
  const log = context.log.child({ role: 'provider-health' })
  const kafka = connectKafka({ config, role: 'provider-health', log })
  const redis = await openRedis(config, { name: `${config.namespace}provider-health`, log })
  const running = await runSink(context, kafka, {
    group: 'provider-health',
    topics: ['refreshes'],
    open: () => openHealthSink(redis, config.namespace, context.metrics),
  })
  return {
    ...running,
    async stop() {
      await running.stop()
      await closeRedis(redis)
    },
  }
}
