import { defineView } from '#streams/runner/view.ts'

/** Items whose best ask moved most, in Redis; computed from candles and provider health, without a group. */
export const view = defineView({
  name: 'movers',
  topics: [],
  store: 'redis',
  process: 'history',
  tables: [],
  start: async context => (await import('./sink.ts')).start(context),
  rebuild: async task => (await import('./sink.ts')).rebuildMovers(task),
  verify: {
    topics: [],
    compare: async task => (await import('./verify.ts')).verifyMovers(task),
  },
})
