import type { RebuildTask, Verification, VerifyTask, View } from '#streams/runner/view.ts'
import type { StoredAlerts } from './verify.ts'

export type { StoredAlerts } from './verify.ts'

/** Alerts that fire (alerts.triggered); the role's state is read from the log whenever a partition opens. */
export const view = {
  name: 'alert-triggers',
  topics: ['bookChanges'],
  store: 'log',
  process: 'path',
  tables: [],
  start: async context => (await import('./main.ts')).start(context),
} as const satisfies View

/** Reads the tables of alerts, which a service owns, for as long as a comparison takes. */
type WithStoredAlerts = <T>(task: VerifyTask, use: (stored: StoredAlerts) => Promise<T>) => Promise<T>

/** The alerts of all accounts: the state of this role, and tables that a service owns and lends to the comparison. */
export const alerts = {
  rebuild: async (task: RebuildTask): Promise<object> => (await import('./rebuild.ts')).rebuildAlerts(task),
  verifyWith: (withStored: WithStoredAlerts): Verification => ({
    topics: ['alertRules', 'alertsTriggered', 'book', 'fx'],
    async compare(task) {
      const { verifyAlerts } = await import('./verify.ts')
      return withStored(task, stored => verifyAlerts(task, stored))
    },
  }),
}
