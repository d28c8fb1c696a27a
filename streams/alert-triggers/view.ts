import { defineView } from '#streams/runner/view.ts'

/** Alerts that fire (alerts.triggered); the role's state is restored from the log whenever a partition opens. */
export const view = defineView({
  name: 'alert-triggers',
  topics: ['bookChanges'],
  store: 'log',
  process: 'live',
  tables: [],
  start: async context => (await import('./main.ts')).start(context),
})
