/**
 * The role `fx`: market.fx to the current exchange rates in Redis and those of each day in ClickHouse.
 *
 * Consumer group `fx`. The topic has one partition, so one process works and others are standby.
 */
import { openBatcher } from '#infra/clickhouse/batcher.ts'
import { openWriter } from '#infra/clickhouse/clickhouse.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { openPositionedSinks } from '#streams/runner/positioned-sinks.ts'
import { runSink } from '#streams/runner/sink-runner.ts'
import { openFxSink } from './sink.ts'
import { fxDaysView } from './table.ts'

/** Starts the role. */
export const start: StartRole = async context => {
  const { config, metrics } = context
  const log = context.log.child({ role: 'fx' })
  const kafka = connectKafka({ config, role: 'fx', log })
  const database = databaseName(config.namespace)
  const writer = openWriter(config.servers.clickhouse, { database, name: 'marketlog-fx' })
  const batcher = openBatcher(writer, { metrics })
  const redis = await openRedis(config, { name: `${config.namespace}fx`, log })
  const sinks = openPositionedSinks(writer, fxDaysView, log)
  const running = await runSink(context, kafka, {
    group: 'fx',
    topics: ['fx'],
    open: source => sinks.position(source, () => openFxSink(redis, batcher, config.namespace)),
  })
  return {
    ...running,
    async stop() {
      await running.stop()
      await batcher.close()
      await closeRedis(redis)
      await writer.close()
    },
  }
}
