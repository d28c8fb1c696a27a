import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { defineTableView } from '#streams/runner/define-view.ts'
import { partitionSql } from '#streams/runner/view.ts'
import { candleParts, candleStanding } from './table.ts'

/** Compressed; some ten thousand changes of each partition, so that a fetch of all fills a batch and no more. */
const FETCH_BYTES = 2 ** 18

const partition = partitionSql('toString(item_id)', ITEM_PARTITIONS)

/** Asks of market.book-changes, and the closes of history files (market.day-closes), as candles in ClickHouse. */
export const view = defineTableView({
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
    const { openCandleFold, openDayCandleFold } = await import('./fold.ts')
    if (topic !== 'dayCloses') return openCandleFold(batcher)
    return openDayCandleFold(batcher, (await catalog()).idOf)
  },
})
