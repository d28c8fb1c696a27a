/**
 * The condition of an alert held (alerts.triggered, keyed by alert id).
 *
 * `version` is that of the evaluated rule. A crash or a replay may publish the event twice: it is applied at most once,
 * and never to a later version. Amounts are those at which the condition was evaluated.
 */
import { ALERT_KINDS, type AlertKind } from '../values/alert.ts'
import { type AvroType, defineEvent, nullable } from './event.ts'

/** Why the condition was evaluated: a change of the book, a change of the rule, or new exchange rates. */
export type TriggerCause = 'book' | 'rule' | 'rates'

/** The condition of an alert held. */
export interface AlertTriggered {
  alert_id: string
  version: number
  item_id: number
  kind: AlertKind
  /** Decimal text: the best ask in `triggered_currency`, or the spread in percent. */
  triggered_value: string
  /** Null for spreads. */
  triggered_currency: string | null
  best_ask_micro_usd: number
  best_bid_micro_usd: number | null
  ask_provider: string
  bid_provider: string | null
  cause: TriggerCause
  /** The time of the cause: of the price, the rule's change, or the rates. */
  caused_at: number
}

/** An event as its trigger was published; numbers are texts. */
export interface StoredTrigger {
  id: string
  alert_id: string
  alert_version: string
  triggered_value: string
  triggered_currency: string | null
  best_ask_micro_usd: string
  best_bid_micro_usd: string | null
  ask_provider: string
  bid_provider: string | null
}

const cause: AvroType = { type: 'enum', name: 'TriggerCause', symbols: ['book', 'rule', 'rates'] }

export const alertTriggered = defineEvent<AlertTriggered>('AlertTriggered', 1, 'The condition of an alert held.', {
  alert_id: 'string',
  version: 'long',
  item_id: 'int',
  kind: { type: 'enum', name: 'AlertTriggeredKind', symbols: [...ALERT_KINDS] },
  triggered_value: 'string',
  triggered_currency: nullable('string'),
  best_ask_micro_usd: 'long',
  best_bid_micro_usd: nullable('long'),
  ask_provider: 'string',
  bid_provider: nullable('string'),
  cause,
  caused_at: 'long',
})
