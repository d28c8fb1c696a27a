import { defineView } from '#streams/runner/view.ts'

/** Health of each provider (market.refreshes) in Redis. */
export const view = defineView({
  name: 'provider-health',
  topics: ['refreshes'],
  store: 'redis',
  process: 'live',
  tables: [],
  start: async context => (await import('./main.ts')).start(context),
  rebuild: async task => (await import('./rebuild.ts')).rebuildHealth(task),
  verify: {
    topics: ['refreshes'],
    compare: async task => (await import('./verify.ts')).verifyHealth(task),
  },
})
