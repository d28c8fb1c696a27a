/**
 * One partition of the triggers: its items' rows and rules in memory, what fires to alerts.triggered.
 *
 * States: catching up (from the group's position to the end that stood when it opened) -> current. While catching up, a
 * rule waits for the change that the log took after the rule, so that it never fires by a price from before it; once
 * current, a rule is looked at when it comes, and a change only when every rule that the log took before it has come.
 * Invariant: the group's position moves on only when the log holds every trigger of what lies before it; a repeat
 * after a crash names the same versions.
 */
import type { Codec } from '#infra/kafka/codec.ts'
import type { Outgoing, Publisher } from '#infra/kafka/publisher.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { type AlertTriggered, alertTriggered } from '#schemas/events/alert-triggered.ts'
import { OK } from '#streams/runner/outcome.ts'
import type { PartitionSink } from '#streams/runner/sink-runner.ts'
import type { RateFeed, RateTable } from './rates.ts'
import type { Restorer } from './restore.ts'
import type { RuleFeed } from './rule-feed.ts'
import type { Rule } from './rule-group.ts'
import {
  changeBook,
  considerRates,
  considerRule,
  movedCurrencies,
  openTriggerState,
  type TriggerState,
} from './step.ts'

/** What the partitions of a process share. */
export interface TriggerParts {
  codec: Codec
  publisher: Publisher
  restorer: Restorer
  rules: RuleFeed
  rates: RateFeed
  metrics: Metrics
  /** For failures that no batch is there to meet. */
  fail(error: Error): void
}

/** A rule that is not looked at before the change at `from`. */
interface Waiting {
  rule: Rule
  /** When it came to stand: its own time or that of the log's taking it, whichever is earlier. */
  since: number
  from: number
}

/** Items whose rules are looked at between two turns of the event loop when rates change. */
const ITEMS_PER_TURN = 500

/** Opens a partition: its rules, then its rows at the group's position, then what came between. */
export async function openTriggerSink(parts: TriggerParts, partition: number): Promise<PartitionSink> {
  const { rates } = parts
  const state = openTriggerState(rates.current().rates)
  const outlet = openOutlet(parts)
  const waiting: Waiting[] = []
  let position = 0
  let end = Number.POSITIVE_INFINITY
  let released = 0

  const consider = (rule: Rule): void => {
    const trigger = considerRule(state, rule)
    if (trigger) outlet.add([trigger])
  }
  const closeRules = await parts.rules.open(partition, (id, changed, appendedAt) => {
    if (changed === undefined) return state.rules.forget(id)
    const rule = state.rules.note(changed)
    if (rule === undefined) return
    const since = Math.min(rule.changedAt, appendedAt)
    if (position < end) return void waiting.push({ rule, since, from: end })
    consider(rule)
    outlet.sendSoon()
  })
  const restored = await parts.restorer.restore({
    ...{ partition, book: state.book, onChange: openPlacing(waiting) },
    async isWatched() {
      await parts.rules.upToDate(partition)
      waiting.sort((one, other) => one.since - other.since)
      return waiting.length > 0
    },
  })
  end = restored.end
  position = restored.next

  const release = (upTo: number): void => {
    for (let next = waiting[released]; next && Math.min(next.from, end) <= upTo; next = waiting[released]) {
      consider(next.rule)
      released += 1
    }
    if (released < waiting.length || released === 0) return
    waiting.length = 0
    released = 0
  }
  const sweep = openSweep(state, outlet, rates)
  release(position)
  outlet.sendSoon()
  const size = parts.metrics.gauge('marketlog_alert_rules_waiting', 'Enabled rules that wait.', ['partition'])
  return {
    position: restored.next,
    prepare: () => parts.rules.upToDate(partition),
    apply(record) {
      release(record.offset)
      if (record.event === 'BookChanged') outlet.add(changeBook(state, record.value))
      position = record.offset + 1
      return OK
    },
    async flush(next) {
      position = next
      release(position)
      size.set({ partition }, state.rules.size())
      await outlet.send()
    },
    async close() {
      closeRules()
      sweep.close()
      await outlet.close()
    },
  }
}

/**
 * Finds for each rule the first change that the log took no earlier than the rule. Those that come while changes are
 * told are younger than all of them, and stand behind; they wait for the end.
 */
function openPlacing(waiting: readonly Waiting[]): (offset: number, appendedAt: number) => void {
  let placed = 0
  return (offset, appendedAt) => {
    for (let next = waiting[placed]; next && next.since <= appendedAt; next = waiting[placed]) {
      next.from = offset
      placed += 1
    }
  }
}

/** Triggers on their way to the log, in the order in which they fired. */
interface Outlet {
  add(triggers: readonly AlertTriggered[]): void
  /** Resolves when the log holds all that was added. */
  send(): Promise<void>
  /** Sends without anybody who waits. */
  sendSoon(): void
  close(): Promise<void>
}

function openOutlet({ codec, publisher, metrics, fail }: TriggerParts): Outlet {
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

/** Looks at the rules in currencies whose rates have changed, some items at a time. */
function openSweep(state: TriggerState, outlet: Outlet, rates: RateFeed): { close(): void } {
  let isClosed = false
  const run = (items: number[], moved: ReadonlySet<string>, asOf: number): void => {
    if (isClosed || items.length === 0) return
    for (const item of items.splice(-ITEMS_PER_TURN)) outlet.add(considerRates(state, item, moved, asOf))
    outlet.sendSoon()
    setImmediate(() => run(items, moved, asOf))
  }
  const adopt = (table: RateTable): void => {
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
