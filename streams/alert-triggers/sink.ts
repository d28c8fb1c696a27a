/**
 * One partition of the triggers: its items' rows and rules in memory, what fires to alerts.triggered.
 *
 * A change is applied only when every rule that was appended before it has come, and a rule is evaluated when every change
 * before it has been applied (rule-queue.ts): what fires does not depend on which of the two was read first.
 * Invariant: the group's offset is committed only when the log holds every trigger of what lies before it; a repeat
 * after a crash names the same versions.
 */
import type { Codec } from '#infra/kafka/codec.ts'
import type { Outgoing, Publisher } from '#infra/kafka/publisher.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { type AlertTriggered, alertTriggered } from '#schemas/events/alert-triggered.ts'
import { OK } from '#streams/runner/outcome.ts'
import type { PartitionSink } from '#streams/runner/sink-runner.ts'
import type { RateFeed, RatesInForce } from './rates.ts'
import type { Restorer } from './restore.ts'
import type { RuleFeed } from './rule-feed.ts'
import { type ChangesEnd, openRuleQueue } from './rule-queue.ts'
import {
  changeBook,
  considerRates,
  considerRule,
  movedCurrencies,
  openTriggerState,
  type TriggerState,
} from './step.ts'

/** What the partitions of a process share. */
interface TriggerParts {
  codec: Codec
  publisher: Publisher
  restorer: Restorer
  changes: ChangesEnd
  rules: RuleFeed
  rates: RateFeed
  metrics: Metrics
  /** For failures outside of a batch. */
  fail(error: Error): void
}

/** Items whose rules are evaluated in one turn of the event loop when rates change. */
const ITEMS_PER_TURN = 500

/** Opens a partition: its rules, then its rows at the group's committed offset, then what came between. */
export async function openTriggerSink(parts: TriggerParts, partition: number): Promise<PartitionSink> {
  const { rates, fail } = parts
  const state = openTriggerState(rates.current().rates)
  const triggers = openTriggerPublisher(parts)
  let next = 0
  const queue = openRuleQueue({
    partition,
    changes: parts.changes,
    fail,
    position: () => next,
    consider(rule) {
      const trigger = considerRule(state, rule)
      if (trigger) triggers.add([trigger])
    },
    onSettled: () => triggers.sendSoon(),
  })
  const closeRules = await parts.rules.open(partition, (id, changed, appendedAt) => {
    if (changed === undefined) return state.rules.forget(id)
    const rule = state.rules.note(changed)
    if (rule) queue.add(rule, Math.min(rule.changedAt, appendedAt))
  })
  const restored = await parts.restorer.restore({
    partition,
    book: state.book,
    async isWatched() {
      await parts.rules.upToDate(partition)
      return queue.size() > 0
    },
  })
  next = restored.next
  const sweep = openSweep(state, triggers, rates)
  queue.begin()
  const size = parts.metrics.gauge('marketlog_alert_rules_waiting', 'Enabled rules that wait.', ['partition'])
  return {
    position: { topicId: restored.topicId, next },
    prepare: () => parts.rules.upToDate(partition),
    apply(record) {
      queue.release(record.appendedAt)
      if (record.event === 'BookChanged') triggers.add(changeBook(state, record.value))
      next = record.offset + 1
      return OK
    },
    async flush(position) {
      next = position.next
      size.set({ partition }, state.rules.size())
      await triggers.send()
    },
    async close() {
      closeRules()
      queue.close()
      sweep.close()
      await triggers.close()
    },
  }
}

/** Publishes triggers in the order in which they fired. */
interface TriggerPublisher {
  add(triggers: readonly AlertTriggered[]): void
  /** Resolves when the log holds all that was added. */
  send(): Promise<void>
  /** Sends; a failure ends the process. */
  sendSoon(): void
  close(): Promise<void>
}

function openTriggerPublisher({ codec, publisher, metrics, fail }: TriggerParts): TriggerPublisher {
  const fired = metrics.counter('marketlog_alerts_triggered_total', 'Triggers written, repeats included.', ['cause'])
  let records: Outgoing[] = []
  let sending: Promise<void> = Promise.resolve()
  let isClosed = false
  const send = (): Promise<void> => {
    if (records.length === 0) return sending
    const batch = records
    records = []
    sending = sending.then(() => publisher.send(batch))
    return sending
  }
  return {
    add(triggers) {
      for (const trigger of triggers) {
        fired.inc({ cause: trigger.cause })
        const value = codec.encode(alertTriggered, trigger)
        records.push({ topic: 'alertsTriggered', key: trigger.alert_id, value })
      }
    },
    send,
    sendSoon() {
      send().catch(error => {
        if (!isClosed) fail(error)
      })
    },
    async close() {
      isClosed = true
      await sending.catch(() => undefined)
    },
  }
}

/** Evaluates the rules in currencies whose rates have changed, some items at a time. */
function openSweep(state: TriggerState, triggers: TriggerPublisher, rates: RateFeed): { close(): void } {
  let isClosed = false
  const run = (items: number[], moved: ReadonlySet<string>, asOf: number): void => {
    if (isClosed || items.length === 0) return
    for (const item of items.splice(-ITEMS_PER_TURN)) triggers.add(considerRates(state, item, moved, asOf))
    triggers.sendSoon()
    setImmediate(() => run(items, moved, asOf))
  }
  const adopt = (table: RatesInForce): void => {
    const moved = movedCurrencies(state.rates, table.rates)
    state.rates = table.rates
    run(state.rules.itemsWith(moved), moved, table.asOf)
  }
  const stop = rates.onChange(adopt)
  // What came while the partition was being opened.
  adopt(rates.current())
  return {
    close() {
      isClosed = true
      stop()
    },
  }
}
