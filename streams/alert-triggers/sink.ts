/**
 * One partition of the triggers: its items' rows and rules in memory, what fires to alerts.triggered.
 *
 * Reads accounts.alert-rules, which is partitioned as the changes of items are, without a group. States: opening (rules and rows are read
 * to the log's end, nothing is evaluated) -> open (every rule was evaluated once; from then on it is evaluated when it comes, when its
 * item's best prices move, and at new rates). A change is applied only when every rule
 * that the log held before it has come. Invariant: the group's offset is committed only when the log holds every trigger of what
 * lies before it. An owner that is killed between the two leaves rules that are evaluated once more, and triggers that repeat name
 * the same versions; a price that came and went while no role was there fires nothing (DECISIONS.md, "Alerts").
 */
import { eventOf } from '#infra/kafka/codec.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { follow } from '#infra/kafka/follower.ts'
import type { Outgoing, Publisher } from '#infra/kafka/publisher.ts'
import type { LogRecord, RangeReader } from '#infra/kafka/range-reader.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import type { TopicIds } from '#infra/runtime/role.ts'
import { type AlertTriggered, alertTriggered } from '#schemas/events/alert-triggered.ts'
import { OK } from '#streams/runner/outcome.ts'
import type { Position } from '#streams/runner/positions.ts'
import type { PartitionSink } from '#streams/runner/sink-runner.ts'
import type { RateFeed, RatesInForce } from './rates.ts'
import type { RowReader } from './rows.ts'
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
  kafka: KafkaConnection
  ids: TopicIds
  /** Opened for the topic of the rules. */
  reader: RangeReader
  publisher: Publisher
  readRows: RowReader
  rates: RateFeed
  metrics: Metrics
  fail(error: Error): void
}

/** Fetched records die young: with 4 MiB at a time the heap grew to twice of what it holds. */
export const OPENING_BYTES = 2 ** 17
/** Items whose rules are evaluated in one turn of the event loop when rates change. */
const ITEMS_PER_TURN = 500

/** Opens a partition; resolves when the log holds what fires by its rules and prices as they are. */
export async function openTriggerSink(parts: TriggerParts, partition: number): Promise<PartitionSink> {
  const { kafka, ids, reader, rates, metrics, fail } = parts
  const state = openTriggerState(rates.current().rates)
  const stop = new AbortController()
  const triggers = openTriggerPublisher(parts, stop.signal)
  let isOpen = false
  const evaluate = (rule: EnabledRule): void => {
    const trigger = considerRule(state, rule)
    if (trigger) triggers.add([trigger])
  }
  const noteRule = ({ key, value, offset }: LogRecord): void => {
    const id = String(key)
    const decoded = eventOf(kafka.codec, value)
    if (value === null) state.rules.forget(id)
    else if (decoded?.event === 'AlertRuleChanged') {
      const rule = state.rules.note(decoded.value)
      if (rule && isOpen) evaluate(rule)
    } else kafka.log.warn({ offset, key: id }, 'a record of accounts.alert-rules cannot be read')
  }
  const rules = await follow(kafka, 'alertRules', {
    partitions: [partition],
    from: 'start',
    ids,
    signal: stop.signal,
    fetchBytes: OPENING_BYTES,
    waitMs: 500,
    onRecords(records) {
      for (const record of records) noteRule(record)
      if (isOpen) triggers.sendSoon()
    },
  })
  rules.closed.catch(error => void (stop.signal.aborted || fail(error)))
  const upToDate = async (): Promise<void> =>
    rules.reached(partition, await reader.stableEnd(kafka.topicName('alertRules'), partition))
  const open = async (): Promise<Position> => {
    await rules.caughtUp
    const position = await parts.readRows({ partition, book: state.book })
    await upToDate()
    for (const rule of state.rules.all()) evaluate(rule)
    isOpen = true
    await triggers.send()
    return position
  }
  const position = await open().catch(error => {
    stop.abort()
    throw error
  })
  const stopSweep = sweepOnNewRates(state, triggers, rates)
  const size = metrics.gauge('marketlog_alert_rules_waiting', 'Enabled rules that wait.', ['partition'])
  size.set({ partition }, state.rules.size())
  return {
    position,
    prepare: upToDate,
    apply(record) {
      if (record.event === 'BookChanged') triggers.add(changeBook(state, record.value))
      return OK
    },
    async flush() {
      size.set({ partition }, state.rules.size())
      await triggers.send()
    },
    async close() {
      stop.abort()
      stopSweep()
      await triggers.settled()
      await rules.closed.catch(() => undefined)
    },
  }
}

type TriggerPublisher = ReturnType<typeof openTriggerPublisher>

function openTriggerPublisher({ kafka, publisher, metrics, fail }: TriggerParts, closed: AbortSignal) {
  const fired = metrics.counter('marketlog_alerts_triggered_total', 'Triggers written, repeats included.', ['cause'])
  let records: Outgoing[] = []
  let sending: Promise<void> = Promise.resolve()
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
    add(triggers: readonly AlertTriggered[]): void {
      for (const trigger of triggers) {
        fired.inc({ cause: trigger.cause })
        const value = kafka.codec.encode(alertTriggered, trigger)
        records.push({ topic: 'alertsTriggered', key: trigger.alert_id, value })
      }
    },
    send,
    settled: () => sending.catch(() => undefined),
    sendSoon: () => void send().catch(error => void (closed.aborted || fail(error))),
  }
}

/** Evaluates the rules in currencies whose rates change, some items at a time, until the returned function is called. */
function sweepOnNewRates(state: TriggerState, triggers: TriggerPublisher, rates: RateFeed): () => void {
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
  return () => {
    isClosed = true
    stop()
  }
}
