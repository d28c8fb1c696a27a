import { defineView } from '#streams/runner/view.ts'

/** The live asks and bids (market.book-changes) in Redis: one table, partition by partition, rebuilt together. */
export const view = defineView({
  name: 'live-view',
  aliases: ['live-asks', 'live-bids'],
  topics: ['bookChanges'],
  store: 'redis',
  process: 'live',
  tables: [],
  start: async context => (await import('./main.ts')).start(context),
  async rebuild({ config, log, onProgress }) {
    const { rebuildLiveView } = await import('./rebuild-view.ts')
    return { partitions: await rebuildLiveView(config, log, onProgress) }
  },
  verify: {
    topics: ['bookChanges', 'book'],
    compare: async task => (await import('./verify.ts')).verifyLive(task),
  },
})
