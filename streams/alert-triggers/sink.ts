/**
 * One partition of the triggers: its items' rows and rules in memory, what fires to alerts.triggered.
 *
 * States: opening (rules and rows are read to the log's end, nothing is evaluated) -> open (every rule was evaluated once; from then
 * on it is evaluated when it comes, when its item's best prices move, and at new rates). A change is applied only when every rule
 * that the log held before it has come. Invariant: the group's offset is committed only when the log holds every trigger of what
 * lies before it. An owner that is killed between the two leaves rules that are evaluated once more, and triggers that repeat name
 * the same versions; a price that came and went while no role was there fires nothing (DECISIONS.md, "Alerts").
 */
import type { Codec } from '#infra/kafka/codec.ts'
import type { Outgoing, Publisher } from '#infra/kafka/publisher.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { type AlertTriggered, alertTriggered } from '#schemas/events/alert-triggered.ts'
import { OK } from '#streams/runner/outcome.ts'
import type { PartitionSink } from '#streams/runner/sink-runner.ts'
import type { RateFeed, RatesInForce } from './rates.ts'
import type { RowReader } from './rows.ts'
import type { RuleFeed } from './rule-feed.ts'
import type { EnabledRule } from './rule-index.ts'
import {
  changeBook,
  considerRates,
  considerRule,
  movedCurrencies,
  openTriggerState,
  type TriggerState,
} from './step.ts'

interface TriggerParts {
  codec: Codec
  publisher: Publisher
  readRows: RowReader
  rules: RuleFeed
  rates: RateFeed
  metrics: Metrics
  fail(error: Error): void
}

/** Items whose rules are evaluated in one turn of the event loop when rates change. */
const ITEMS_PER_TURN = 500

/** Opens a partition; resolves when the log holds what fires by its rules and prices as they are. */
export async function openTriggerSink(parts: TriggerParts, partition: number): Promise<PartitionSink> {
  const { rules, rates, metrics } = parts
  const state = openTriggerState(rates.current().rates)
  const triggers = openTriggerPublisher(parts)
  let isOpen = false
  const evaluate = (rule: EnabledRule): void => {
    const trigger = considerRule(state, rule)
    if (trigger) triggers.add([trigger])
  }
  const closeRules = await rules.open(partition, (id, changed) => {
    if (changed === undefined) return state.rules.forget(id)
    const rule = state.rules.note(changed)
    if (!rule || !isOpen) return
    evaluate(rule)
    triggers.sendSoon()
  })
  const position = await parts.readRows({ partition, book: state.book })
  await rules.upToDate(partition)
  for (const rule of state.rules.all()) evaluate(rule)
  isOpen = true
  await triggers.send()
  const sweep = openSweep(state, triggers, rates)
  const size = metrics.gauge('marketlog_alert_rules_waiting', 'Enabled rules that wait.', ['partition'])
  size.set({ partition }, state.rules.size())
  return {
    position,
    prepare: () => rules.upToDate(partition),
    apply(record) {
      if (record.event === 'BookChanged') triggers.add(changeBook(state, record.value))
      return OK
    },
    async flush() {
      size.set({ partition }, state.rules.size())
      await triggers.send()
    },
    async close() {
      closeRules()
      sweep.close()
      await triggers.close()
    },
  }
}

interface TriggerPublisher {
  add(triggers: readonly AlertTriggered[]): void
  send(): Promise<void>
  sendSoon(): void
  close(): Promise<void>
}

function openTriggerPublisher({ codec, publisher, metrics, fail }: TriggerParts): TriggerPublisher {
  const fired = metrics.counter('marketlog_alerts_triggered_total', 'Triggers written, repeats included.', ['cause'])
  let records: Outgoing[] = []
  let sending: Promise<void> = Promise.resolve()
  let isClosed = false
  // What is added while one batch is sent goes with the next one, whatever number of rules comes one by one.
  const sendAdded = async (): Promise<void> => {
    const batch = records
    records = []
    if (batch.length > 0) await publisher.send(batch)
  }
  const send = (): Promise<void> => {
    if (records.length > 0) sending = sending.then(sendAdded)
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
