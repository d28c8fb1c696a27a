/** The role that keeps a view in ClickHouse. */
import { openBatcher } from '#infra/clickhouse/batcher.ts'
import { openWriter } from '#infra/clickhouse/clickhouse.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { RoleContext, RunningRole } from '#infra/runtime/role.ts'
import { openPositionedSinks } from './positioned-sinks.ts'
import { runSink } from './sink-runner.ts'
import type { TableView } from './view.ts'

/** Runs the role that keeps a view. */
export async function runTableView(context: RoleContext, view: TableView): Promise<RunningRole> {
  const { config, metrics } = context
  const log = context.log.child({ role: view.name })
  const kafka = connectKafka({ config, role: view.name, log })
  const writer = openWriter(config.servers.clickhouse, {
    database: databaseName(config.namespace),
    name: `marketlog-${view.name}`,
  })
  const batcher = openBatcher(writer, { metrics })
  const sinks = openPositionedSinks(writer, view, log)
  const running = await runSink(context, kafka, {
    group: view.name,
    topics: view.topics,
    ...(view.maxBytesPerPartition && { maxBytesPerPartition: view.maxBytesPerPartition }),
    open: source => sinks.position(source, () => view.open(source.topic, batcher, context.catalog)),
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
