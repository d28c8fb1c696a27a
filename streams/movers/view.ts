import { defineComputedView } from '#streams/runner/define-view.ts'

/** Items whose best ask moved most, in Redis. */
export const view = defineComputedView({
  name: 'movers',
  computedOf: { candles: 'bookChanges', 'provider-health': 'refreshes' },
  open: async tools => (await import('./compute.ts')).openMovers(tools),
})
