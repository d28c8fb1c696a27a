/**
 * The role `sales`: market.sales to the sales tables in ClickHouse.
 *
 * Consumer group `sales`. Names are resolved by the process's catalog; one that it lacks goes to
 * market.unresolved, to be replayed after a catalog update.
 */
import { openBatcher } from '#infra/clickhouse/batcher.ts'
import { openWriter } from '#infra/clickhouse/clickhouse.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { runSink } from '#streams/runner/sink-runner.ts'
import { openSalesSink } from './sink.ts'

/** Starts the role. */
export const start: StartRole = async context => {
  const { config, metrics } = context
  const log = context.log.child({ role: 'sales' })
  const kafka = connectKafka({ config, role: 'sales', log })
  const catalog = await context.catalog()
  const database = databaseName(config.namespace)
  const writer = openWriter(config.servers.clickhouse, { database, name: 'marketlog-sales' })
  const batcher = openBatcher(writer, { log, metrics })
  const running = await runSink(context, kafka, {
    group: 'sales',
    mergesByOffset: true,
    topics: ['sales'],
    open: async () => openSalesSink(batcher, catalog.idOf),
  })
  return {
    ...running,
    async stop() {
      await running.stop()
      await batcher.close()
      await writer.close()
    },
  }
}
