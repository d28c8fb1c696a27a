import { topics } from '#schemas/topics.ts'
import { defineTableView } from '#streams/runner/define-view.ts'
import { type Origin, partitionSql } from '#streams/runner/view.ts'
import { sales, salesByTime } from './table.ts'

const origin: Origin = {
  topic: 'sales',
  partition: partitionSql('provider', topics.sales.partitions),
  // A sale's version falls with its offset.
  isBefore: offset => `${Number.MAX_SAFE_INTEGER} - version < ${offset}`,
}

/**
 * Completed sales (market.sales) in ClickHouse. Names are resolved by the process's catalog; a sale of one that it
 * lacks goes to market.unresolved, and comes again with the next list of its provider.
 */
export const view = defineTableView({
  name: 'sales',
  topics: ['sales'],
  tables: [
    { table: sales, origins: [origin] },
    { table: salesByTime, origins: [origin] },
  ],
  async open(_topic, batcher, catalog) {
    const { openSalesFold } = await import('./fold.ts')
    return openSalesFold(batcher, (await catalog()).idOf)
  },
})
