/**
 * The role `sales`: market.sales to the sales tables in ClickHouse.
 *
 * Consumer group `sales`. Names are resolved by the process's catalog; one that it lacks goes to
 * market.unresolved, to be replayed after a catalog update.
 */
import type { StartRole } from '#infra/runtime/role.ts'
import { topics } from '#schemas/topics.ts'
import { sales, salesByTime } from '#schemas/views/clickhouse/sales.ts'
import { type Origin, partitionSql, runTableView, type TableView } from '#streams/runner/table-view.ts'
import { openSalesSink } from './sink.ts'

const origin: Origin = {
  topic: 'sales',
  partition: partitionSql('provider', topics.sales.partitions),
  // A sale's version falls with its offset.
  isBefore: offset => `${Number.MAX_SAFE_INTEGER} - version < ${offset}`,
}

/** The view. */
export const view: TableView = {
  name: 'sales',
  topics: ['sales'],
  tables: [
    { table: sales, origins: [origin] },
    { table: salesByTime, origins: [origin] },
  ],
  open: async (_topic, batcher, catalog) => openSalesSink(batcher, (await catalog()).idOf),
}

/** Starts the role. */
export const start: StartRole = context => runTableView(context, view)
