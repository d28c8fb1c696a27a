/**
 * The condition of an alert held (alerts.triggered, keyed by alert id).
 *
 * `version` is that of the evaluated rule. A crash or a replay may publish the event twice: it is applied at most once,
 * and never to a later version. Amounts are those at which the condition was evaluated.
 */
import { ALERT_KINDS } from '../values/alert.ts'
import { defineEvent, type EventValue, nullable } from './event.ts'

export const alertTriggered = defineEvent('AlertTriggered', 1, 'The condition of an alert held.', {
  alert_id: 'string',
  version: 'long',
  item_id: 'int',
  kind: { type: 'enum', name: 'AlertTriggeredKind', symbols: ALERT_KINDS },
  /** Decimal text: the best ask in `triggered_currency`, or the spread in percent. */
  triggered_value: 'string',
  /** Null for spreads. */
  triggered_currency: nullable('string'),
  best_ask_micro_usd: 'long',
  best_bid_micro_usd: nullable('long'),
  ask_provider: 'string',
  bid_provider: nullable('string'),
  /** Why the condition was evaluated: a change of the book, a change of the rule, or new exchange rates. */
  cause: { type: 'enum', name: 'TriggerCause', symbols: ['book', 'rule', 'rates'] },
  /** The time of the cause: of the price, the rule's change, or the rates. */
  caused_at: 'long',
})

export type AlertTriggered = EventValue<typeof alertTriggered>

/** An event as its trigger was published; numbers are texts. */
export type StoredTrigger = Pick<
  AlertTriggered,
  'alert_id' | 'triggered_value' | 'triggered_currency' | 'ask_provider' | 'bid_provider'
> & { id: string; alert_version: string; best_ask_micro_usd: string; best_bid_micro_usd: string | null }
