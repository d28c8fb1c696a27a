import { defineRedisView } from '#streams/runner/define-view.ts'
import type { LiveFold } from './fold.ts'
import { LIVE_FORMAT, type LiveHead, liveRoot } from './table.ts'

/** Compressed; some ten thousand changes, which is one write to Redis of some ten milliseconds. */
const FETCH_BYTES = 2 ** 18

/**
 * The live asks and bids (market.book-changes) in Redis, and stored snapshots of them. An ask that has not changed for the log's
 * retention is in no change of it: the base is the book's changelog.
 */
export const view = defineRedisView({
  name: 'live-view',
  aliases: ['live-asks', 'live-bids'],
  topics: ['bookChanges'],
  maxBytesPerPartition: FETCH_BYTES,
  format: LIVE_FORMAT,
  rootOf: liveRoot,
  open: async (version, head) => (await import('./fold.ts')).openLiveFold(version, head as LiveHead | undefined),
  base: {
    topics: ['book'],
    async fill(parts, folds, page) {
      const { foldBook } = await import('#streams/book/reader.ts')
      const { partitionOfItem } = await import('#schemas/values/item-partition.ts')
      await foldBook<LiveFold>(parts, {
        targetOf: itemId => folds.get(partitionOfItem(itemId)),
        row: (fold, side, provider, itemId, stored) => fold.row({ side, provider, itemId, stored }),
        refreshed(side, provider, at) {
          for (const fold of folds.values()) fold.refreshed(side, provider, at)
        },
        unreadable(error) {
          throw error
        },
        page,
      })
    },
  },
  succeed: (own, { version, succeeds = version }: LiveHead) => ({ ...own, succeeds }),
  async companions({ config, log, metrics, catalog }, redis) {
    const { loadProviders } = await import('#infra/config/providers.ts')
    const { openSnapshotBuilder } = await import('./snapshot-builder.ts')
    return openSnapshotBuilder({
      redis,
      log: log.child({ role: 'live-view' }),
      metrics,
      baseUrl: config.baseUrl,
      catalog: catalog(),
      registry: loadProviders(config.providersFile),
    })
  },
})
