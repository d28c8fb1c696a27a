/**
 * A view in ClickHouse: its tables, the topics it comes from, and the role that keeps it.
 *
 * What the role and a rebuild share, so that both write by the same sinks. For views that merge by log offset alone: the
 * group's committed offset, which follows the confirmed write, is position enough. Invariant: a switch of tables that
 * a killed rebuild has left half done is finished by the role within {@link CHECK_EVERY_MS}.
 */
import { type Batcher, openBatcher } from '#infra/clickhouse/batcher.ts'
import { openWriter } from '#infra/clickhouse/clickhouse.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { CatalogReader, RoleContext, RunningRole } from '#infra/runtime/role.ts'
import type { TopicKey } from '#schemas/topics.ts'
import type { Table } from '#schemas/views/clickhouse/table.ts'
import { type PartitionSink, runSink } from './sink-runner.ts'
import { finishSwitch } from './table-switch.ts'

/** Rows of a table that rest on records of a topic which the log may no longer hold. */
export interface Origin {
  topic: TopicKey
  /** SQL: the partition of the records that a row rests on. */
  partition: string
  /** SQL: whether the row rests on a record before an offset (an SQL expression). */
  isBefore(offset: string): string
}

/** A table of a view. */
export interface ViewTable {
  table: Table
  origins: readonly Origin[]
}

/** A view in ClickHouse. */
export interface TableView {
  /** Role, consumer group and name of the view. */
  name: string
  topics: readonly TopicKey[]
  tables: readonly ViewTable[]
  /** Bytes of one fetch for one partition. */
  maxBytesPerPartition?: number
  /** Opens the sink of a partition of a topic, writing through a batcher. */
  open(topic: TopicKey, batcher: Batcher, catalog: () => Promise<CatalogReader>): Promise<PartitionSink>
}

/** SQL: the partition of a topic that a key goes to, as Kafka's own producers choose it. */
export const partitionSql = (key: string, partitions: number): string =>
  `bitAnd(kafkaMurmurHash(${key}), 2147483647) % ${partitions}`

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
  const batcher = openBatcher(writer, { log, metrics })
  const running = await runSink(context, kafka, {
    group: view.name,
    topics: view.topics,
    mergesByOffset: true,
    ...(view.maxBytesPerPartition && { maxBytesPerPartition: view.maxBytesPerPartition }),
    open: topic => view.open(topic, batcher, context.catalog),
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
