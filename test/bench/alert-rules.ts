/**
 * Enabled alert rules by the million, and changes of prices that reach some of them, for the benchmark of alerts.
 *
 * Writes accounts.alert-rules and market.book-changes as their writers would, without Postgres and without a
 * book. A provider of its own is the cheapest of every item, so each of its moves moves the item's best ask. Invariant: a rule
 * that is not a canary never holds; a canary holds by the one change that the benchmark made for it.
 */
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { type Outgoing, openPublisher, type Publisher } from '#infra/kafka/publisher.ts'
import { type AlertRuleChanged, alertRuleChanged } from '#schemas/events/alert-rule-changed.ts'
import { topics } from '#schemas/topics.ts'
import type { AlertKind } from '#schemas/values/alert.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { bookChangeRecord, changed } from '#test/harness/published-records.ts'

/** Rules and changes under way to the log. */
export type AlertBench = Awaited<ReturnType<typeof openAlertBench>>

/** The price at which a canary fires. */
export const CANARY_MICRO = 150

/** Whose asks are moved. */
const PROVIDER = 'alerts_bench'
const RULES_PER_SEND = 20_000
const EPOCH = Date.UTC(2026, 2, 1)
/** Below the market's cheapest asks, above the lower thresholds. */
const MICRO = { resting: 200, step: 10 }
const CANARY_USD = '0.00018'

/** By turns; nothing costs as much as the upper thresholds or as little as the lower ones. */
const SHAPES: readonly [kind: AlertKind, value: string, currency: string | null][] = [
  ['price_below', '0.0001', 'USD'],
  ['price_above', '100000', 'USD'],
  ['price_below', '0.0001', 'EUR'],
  ['price_above', '900000', 'CNY'],
  ['spread_exceeds', '99.9', null],
]

/** Opens the writers. */
export async function openAlertBench(kafka: KafkaConnection, itemIds: readonly number[]) {
  const { alertRules, alertsTriggered, bookChanges } = topics
  await kafka.codec.prepare([...alertRules.events, ...alertsTriggered.events, ...bookChanges.events])
  const accounts = await openPublisher(kafka, 'accounts')
  const book = await openPublisher(kafka, 'book')
  const ruleOf = (number: number): AlertRuleChanged => {
    const [kind, value, currency] = SHAPES[number % SHAPES.length] ?? ['price_below', '0.0001', 'USD']
    // A shape's thresholds differ, so that they have an order to keep.
    const places = String(number % 9_973).padStart(4, '0')
    return {
      alert_id: idOf(number),
      account_id: idOf(number % 1_000),
      kind,
      threshold_currency: currency,
      item_id: itemIds[number % itemIds.length] ?? 0,
      threshold_value: `${value}${value.includes('.') ? '' : '.'}${places}`,
      is_enabled: true,
      version: 1,
      changed_at: EPOCH,
    }
  }
  const canaryOf = (itemId: number): AlertRuleChanged => ({
    ...ruleOf(0),
    ...{ alert_id: idOf(2 ** 40 + itemId), item_id: itemId, threshold_value: CANARY_USD },
  })
  return {
    /** Publishes rules `from` to `to`, spread over the items evenly. */
    async rules(from: number, to: number): Promise<void> {
      for (let start = from; start < to; start += RULES_PER_SEND) {
        const numbers = Array.from({ length: Math.min(RULES_PER_SEND, to - start) }, (_, each) => start + each)
        await sendRules(kafka, accounts, numbers.map(ruleOf))
      }
    },
    /** Publishes a rule on each item that fires by a change of that canary. */
    canaries: (ids: readonly number[]): Promise<void> => sendRules(kafka, accounts, ids.map(canaryOf)),
    /** Publishes a change of each item, of canaries to the price that fires them; `turn` sets which way the others go. */
    changes: (ids: readonly number[], turn: number, canaries: ReadonlySet<number>): Promise<void> =>
      book.send(ids.map(itemId => changeTo(kafka, itemId, canaries.has(itemId) ? CANARY_MICRO : restingAt(turn)))),
    async close(): Promise<void> {
      await accounts.close()
      await book.close()
    },
  }
}

const restingAt = (turn: number): number => MICRO.resting + (turn % 2) * MICRO.step

/** A UUID that holds a number. */
const idOf = (number: number): string => `00000000-0000-7000-8000-${number.toString(16).padStart(12, '0')}`

async function sendRules(
  kafka: KafkaConnection,
  publisher: Publisher,
  rules: readonly AlertRuleChanged[],
): Promise<void> {
  await publisher.send(
    rules.map(rule => ({
      topic: 'alertRules',
      key: rule.alert_id,
      partition: partitionOfItem(rule.item_id),
      value: kafka.codec.encode(alertRuleChanged, rule),
    })),
  )
}

const changeTo = ({ codec }: KafkaConnection, itemId: number, micro: number): Outgoing =>
  bookChangeRecord(
    codec,
    changed({
      provider: PROVIDER,
      item_id: itemId,
      change: 'updated',
      price: Math.round(micro / 10_000),
      price_micro_usd: micro,
      previous_micro_usd: MICRO.resting,
      previous_quantity: 1,
      seen_at: EPOCH,
      refresh_id: null,
    }),
  )
