import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { defineTableView } from '#streams/runner/define-view.ts'
import { partitionSql } from '#streams/runner/view.ts'
import { changes, providerDays } from './table.ts'

/** Compressed; some ten thousand changes of each partition, so that a fetch of all fills a batch and no more. */
const FETCH_BYTES = 2 ** 18

/** Single changes and daily closes of market.book-changes, and the closes of history files (market.day-closes), in ClickHouse. */
export const view = defineTableView({
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
          partition: partitionSql('toString(item_id)', ITEM_PARTITIONS),
          isBefore: offset =>
            `(closing.version >= 0 AND closing.version < ${offset}) OR (priced.version >= 0 AND priced.version < ${offset})`,
        },
        // Closes of history files have versions below all others, whatever their offset.
        { topic: 'dayCloses', partition: '0', isBefore: () => 'closing.version < 0 OR priced.version < -1' },
      ],
    },
  ],
  async open(topic, batcher, catalog) {
    const { openHistoryFold, openDayCloseFold } = await import('./fold.ts')
    if (topic !== 'dayCloses') return openHistoryFold(batcher)
    return openDayCloseFold(batcher, (await catalog()).idOf)
  },
})
