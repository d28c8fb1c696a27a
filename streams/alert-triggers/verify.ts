/**
 * Compares the accounts' alerts, as their service keeps them, with what the log says of them.
 *
 * Three things must agree: each alert and the last rule of its key; each enabled alert and the prices of now, at which its
 * condition must not hold, or it would have fired; each event and a trigger of its version. Rules, prices and rates come
 * from the log by a plain fold. The platform goes on meanwhile, so what differs is read again: only what is unchanged
 * after {@link SETTLE_MS} is a difference.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { type Decoded, eventOf } from '#infra/kafka/codec.ts'
import { type LogAccess, rangesOf } from '#infra/kafka/log-access.ts'
import type { LogRecord } from '#infra/kafka/range-reader.ts'
import type { AlertRuleChanged, StoredRule } from '#schemas/events/alert-rule-changed.ts'
import type { AlertTriggered, StoredTrigger } from '#schemas/events/alert-triggered.ts'
import type { TopicKey } from '#schemas/topics.ts'
import { decisiveNumber, holds, parseThreshold } from '#schemas/values/alert.ts'
import { CAME_MEANWHILE, compare, type Findings, leaveOut, noFindings } from '#streams/runner/findings.ts'
import type { VerifyTask } from '#streams/runner/view.ts'
import { type ItemBook, openItemBook } from './item-book.ts'
import { NO_RATES, ratesAfter } from './rates.ts'
import { fillBooks } from './rows.ts'
import type { Rates } from './step.ts'

export interface StoredAlerts {
  rules(take: (rule: StoredRule) => void): Promise<void>
  /** Passes the triggers that all events were recorded of. */
  triggers(take: (trigger: StoredTrigger) => void): Promise<void>
}

/** Longer than a change takes from Postgres to the log, and a trigger back. */
const SETTLE_MS = 15_000
const READ_EVERY_MS = 1_500
const WAITS = 'waits'
const FIRED = 'has fired'

export async function verifyAlerts({ access, report }: VerifyTask, stored: StoredAlerts): Promise<Findings> {
  const until = performance.now() + SETTLE_MS
  const findings = noFindings()
  const rows = await readPairs(access, stored, report)
  let differing = [...rows].filter(([, { expected, found }]) => expected !== found)
  while (differing.length > 0 && performance.now() < until) {
    report(`looking again at ${differing.length} that differ`)
    await pause(READ_EVERY_MS)
    const again = await readPairs(access, stored, () => undefined)
    const { moved = [], same = [] } = Object.groupBy(differing, ([row, pair]) =>
      isDeepStrictEqual(again.get(row), pair) ? 'same' : 'moved',
    )
    for (const [row] of moved) rows.delete(row)
    leaveOut(findings, CAME_MEANWHILE, moved.length)
    differing = same
  }
  for (const [row, { expected, found }] of rows) compare(findings, row, expected, found)
  return findings
}

/** All rows as they are now; the tables are read first, so that the log can be ahead of it but not behind. */
async function readPairs(
  access: LogAccess,
  stored: StoredAlerts,
  report: (step: string) => void,
): Promise<Map<string, { expected: string | undefined; found: string | undefined }>> {
  report('reading the accounts')
  const alerts = new Map<string, StoredRule>()
  await stored.rules(rule => void alerts.set(rule.id, rule))
  const events = new Map<string, { trigger: string; text: string }>()
  await stored.triggers(row => {
    events.set(row.id, { trigger: `${row.alert_id}@${row.alert_version}`, text: textOfTrigger(row) })
  })
  report('reading the log')
  const rules = await readRules(access)
  const market = await readMarket(access)
  const { triggers, isWhole } = await readTriggers(access)
  const rows: Awaited<ReturnType<typeof readPairs>> = new Map()
  for (const id of new Set([...alerts.keys(), ...rules.keys()])) {
    const [expected, found] = [rules.get(id), alerts.get(id)].map(rule => rule && textOfRule(rule))
    rows.set(`rule ${id}`, { expected, found })
  }
  for (const [id, rule] of alerts) {
    if (rule.is_enabled) rows.set(`condition ${id}`, { expected: isMet(rule, market) ? FIRED : WAITS, found: WAITS })
  }
  for (const [event, { trigger, text }] of events) {
    const texts = triggers.get(trigger)
    // An event whose trigger the log no longer holds cannot be compared.
    if (texts || isWhole)
      rows.set(`event ${event}`, { expected: texts?.has(text) ? text : texts?.values().next().value, found: text })
  }
  return rows
}

const textOfRule = (rule: StoredRule | AlertRuleChanged): string =>
  [
    ...[rule.account_id, rule.item_id, rule.kind, rule.threshold_value, rule.threshold_currency],
    ...[rule.is_enabled ? 'enabled' : 'disabled', `version ${rule.version}`],
  ].join(' ')

function isMet(rule: StoredRule, { book, rates }: Awaited<ReturnType<typeof readMarket>>): boolean {
  const { kind, item_id, threshold_value, threshold_currency } = rule
  const decisive = decisiveNumber(kind, book.best(item_id), rates.get(threshold_currency ?? ''))
  const threshold = parseThreshold(threshold_value)
  return decisive !== undefined && threshold !== undefined && holds(kind, threshold, decisive)
}

const textOfTrigger = (trigger: StoredTrigger | AlertTriggered): string =>
  [
    ...[trigger.triggered_value, trigger.triggered_currency, trigger.best_ask_micro_usd, trigger.best_bid_micro_usd],
    ...[trigger.ask_provider, trigger.bid_provider],
  ].join(' ')

/** Passes all records of a topic in the order of each partition; null for a tombstone, poison left out. */
async function scan(
  access: LogAccess,
  key: TopicKey,
  take: (decoded: Decoded | null, record: LogRecord) => void,
): Promise<{ isWhole: boolean }> {
  const { topic, ranges } = await rangesOf(access, key, undefined)
  for await (const page of access.reader.range(topic, ranges)) {
    for (const record of page) {
      const decoded = record.value === null ? null : eventOf(access.kafka.codec, record.value)
      if (decoded !== undefined) take(decoded, record)
    }
  }
  return { isWhole: [...ranges.values()].every(({ from }) => from === 0) }
}

async function readRules(access: LogAccess): Promise<Map<string, AlertRuleChanged>> {
  const rules = new Map<string, AlertRuleChanged>()
  await scan(access, 'alertRules', (decoded, { key }) => {
    if (decoded === null) rules.delete(String(key))
    else rules.set(String(key), decoded.value)
  })
  return rules
}

async function readTriggers(access: LogAccess): Promise<{ triggers: Map<string, Set<string>>; isWhole: boolean }> {
  const triggers = new Map<string, Set<string>>()
  const { isWhole } = await scan(access, 'alertsTriggered', decoded => {
    if (decoded === null) return
    const key = `${decoded.value.alert_id}@${decoded.value.version}`
    triggers.set(key, (triggers.get(key) ?? new Set()).add(textOfTrigger(decoded.value)))
  })
  return { triggers, isWhole }
}

async function readMarket(access: LogAccess): Promise<{ book: ItemBook; rates: Rates }> {
  const book = openItemBook()
  const books = [book]
  await fillBooks(access, () => books)
  let table = NO_RATES
  await scan(access, 'fx', (decoded, { timestamp }) => {
    if (decoded !== null) table = ratesAfter(table, decoded, timestamp)
  })
  return { book, rates: table.rates }
}
