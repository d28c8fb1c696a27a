import { defineComputedView } from '#streams/runner/define-view.ts'

/** The market as a whole in Redis: pairs of an ask and a bid, and figures of every item; its role follows the log without a group. */
export const view = defineComputedView({
  name: 'market-summary',
  computedOf: { 'provider-health': 'refreshes', history: 'bookChanges', candles: 'bookChanges', sales: 'sales' },
  open: async tools => (await import('./compute.ts')).openMarketSummary(tools),
})
