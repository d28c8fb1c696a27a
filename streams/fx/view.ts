import { defineView } from '#streams/runner/view.ts'
import { fxDays } from './table.ts'

/** Exchange rates (market.fx): those in force in Redis, and those of each day in ClickHouse. */
export const view = defineView({
  name: 'fx',
  topics: ['fx'],
  store: 'redis',
  process: 'live',
  tables: [{ table: fxDays, origins: [] }],
  start: async context => (await import('./main.ts')).start(context),
  rebuild: async task => (await import('./rebuild.ts')).rebuildRates(task),
  verify: {
    topics: ['fx'],
    compare: async task => (await import('./verify.ts')).verifyRates(task),
  },
})
