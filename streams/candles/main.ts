/**
 * The role `candles`: market.book-changes (asks) to candle parts in ClickHouse, and the closes of history files
 * (market.day-closes) to those of a day.
 *
 * Consumer group `candles`. Scales out by partitions; all partitions of a process share one batcher.
 */
import type { StartRole } from '#infra/runtime/role.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { looseNames } from '#schemas/values/market-text.ts'
import { candleParts } from '#schemas/views/clickhouse/candle-parts.ts'
import { candleStanding } from '#schemas/views/clickhouse/candle-standing.ts'
import { partitionSql, runTableView, type TableView } from '#streams/runner/table-view.ts'
import { openDayCandleSink } from './day-closes.ts'
import { openCandleSink } from './sink.ts'

/** Compressed; some ten thousand changes of each partition, so that a fetch of all fills a batch and no more. */
const FETCH_BYTES = 2 ** 18

const partition = partitionSql('toString(item_id)', ITEM_PARTITIONS)

/** The view. */
export const view: TableView = {
  name: 'candles',
  topics: ['bookChanges', 'dayCloses'],
  maxBytesPerPartition: FETCH_BYTES,
  tables: [
    {
      table: candleParts,
      origins: [
        { topic: 'bookChanges', partition, isBefore: offset => `opening.version < ${offset}` },
        // Closes of history files have the version 0, whatever their offset.
        { topic: 'dayCloses', partition: '0', isBefore: () => 'opening.version = 0' },
      ],
    },
    {
      table: candleStanding,
      origins: [{ topic: 'bookChanges', partition, isBefore: offset => `version < ${offset}` }],
    },
  ],
  async open(topic, batcher, catalog) {
    if (topic !== 'dayCloses') return openCandleSink(batcher)
    const { idOf, items } = await catalog()
    return openDayCandleSink(batcher, looseNames(idOf, items))
  },
}

/** Starts the role. */
export const start: StartRole = context => runTableView(context, view)
