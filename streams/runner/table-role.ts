/**
 * The role that keeps a view in ClickHouse.
 *
 * Such views merge by log offset, so the group's committed offset, which follows the confirmed write, is position enough.
 * Invariant: a switch of tables that
 * a killed rebuild has left half done is finished by the role within {@link CHECK_EVERY_MS}.
 */
import { openBatcher } from '#infra/clickhouse/batcher.ts'
import { openWriter } from '#infra/clickhouse/clickhouse.ts'
import { committedOffsets } from '#infra/kafka/committed-offsets.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { RoleContext, RunningRole } from '#infra/runtime/role.ts'
import { runSink } from './sink-runner.ts'
import { finishSwitch } from './table-switch.ts'
import type { TableView } from './view.ts'

const CHECK_EVERY_MS = 15_000

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
  const ids = await context.topicIds()
  const running = await runSink(context, kafka, {
    group: view.name,
    topics: view.topics,
    ...(view.maxBytesPerPartition && { maxBytesPerPartition: view.maxBytesPerPartition }),
    async open({ topic, partition }) {
      const committed = await committedOffsets(kafka, view.name, topic)
      const [next, topicId] = [committed.get(partition), await ids.idOf(topic)]
      const sink = await view.open(topic, batcher, context.catalog)
      return { ...sink, position: next === undefined || topicId === undefined ? undefined : { topicId, next } }
    },
  })
  let checking = Promise.resolve()
  const check = async (): Promise<void> => {
    try {
      const records = await finishSwitch({ view, kafka, writer, log, metrics, catalog: context.catalog })
      if (records > 0) log.info({ view: view.name, records }, 'a rebuild that was cut off has been finished')
    } catch (error) {
      log.warn({ error }, 'an unfinished rebuild could not be checked; it is tried again')
    }
  }
  const timer = setInterval(() => {
    checking = checking.then(check)
  }, CHECK_EVERY_MS)
  checking = check()
  return {
    ...running,
    async stop() {
      clearInterval(timer)
      await checking
      await running.stop()
      await batcher.close()
      await writer.close()
    },
  }
}
