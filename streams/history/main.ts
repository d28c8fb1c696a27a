/**
 * The role `history`: market.book-changes to single changes and daily closes in ClickHouse, and the closes of
 * history files (market.day-closes) to the latter.
 *
 * Consumer group `history`. Scales out by partitions; all partitions of a process share one batcher.
 */
import type { StartRole } from '#infra/runtime/role.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { looseNames } from '#schemas/values/market-text.ts'
import { changes } from '#schemas/views/clickhouse/changes.ts'
import { providerDays } from '#schemas/views/clickhouse/provider-days.ts'
import { partitionSql, runTableView, type TableView } from '#streams/runner/table-view.ts'
import { openDayCloseSink } from './day-closes.ts'
import { openHistorySink } from './sink.ts'

/** Compressed; some ten thousand changes of each partition, so that a fetch of all fills a batch and no more. */
const FETCH_BYTES = 2 ** 18

const partition = partitionSql('toString(item_id)', ITEM_PARTITIONS)

/** The view. */
export const view: TableView = {
  name: 'history',
  topics: ['bookChanges', 'dayCloses'],
  maxBytesPerPartition: FETCH_BYTES,
  tables: [
    {
      table: changes,
      origins: [{ topic: 'bookChanges', partition: 'partition', isBefore: offset => `offset < ${offset}` }],
    },
    {
      table: providerDays,
      origins: [
        {
          topic: 'bookChanges',
          partition,
          isBefore: offset =>
            `(closing.version >= 0 AND closing.version < ${offset}) OR (priced.version >= 0 AND priced.version < ${offset})`,
        },
        // Closes of history files have versions below all others, whatever their offset.
        { topic: 'dayCloses', partition: '0', isBefore: () => 'closing.version < 0 OR priced.version < -1' },
      ],
    },
  ],
  async open(topic, batcher, catalog) {
    if (topic !== 'dayCloses') return openHistorySink(batcher)
    const { idOf, items } = await catalog()
    return openDayCloseSink(batcher, looseNames(idOf, items))
  },
}

/** Starts the role. */
export const start: StartRole = context => runTableView(context, view)
