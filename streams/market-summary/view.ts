import { defineView } from '#streams/runner/view.ts'

/** The market as a whole in Redis; its role follows the log without a group. */
export const view = defineView({
  name: 'market-summary',
  topics: [],
  store: 'redis',
  process: 'history',
  tables: [],
  start: async context => (await import('./main.ts')).start(context),
})
