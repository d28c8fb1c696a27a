/**
 * The reason text of an alert that fires.
 *
 * The event holds what its owner asked for and what was met, so it reads the same after the alert has been changed or
 * deleted.
 */
import type { AlertTriggered } from '#schemas/events/alert-triggered.ts'
import type { StoredAlert } from './alert-rows.ts'

/** Why an alert fired, in one sentence. */
export function reasonOf(alert: StoredAlert, trigger: AlertTriggered): string {
  const { triggered_value: value, triggered_currency: currency, ask_provider, bid_provider } = trigger
  const { kind, thresholdValue, thresholdCurrency } = alert
  if (kind === 'spread_exceeds') {
    const between = `between the best ask at ${ask_provider} and the best bid at ${bid_provider}`
    return `The spread of ${value} % ${between} exceeds ${thresholdValue} %.`
  }
  const side = kind === 'price_below' ? 'below' : 'above'
  return `The best ask of ${value} ${currency} at ${ask_provider} is ${side} ${thresholdValue} ${thresholdCurrency}.`
}
