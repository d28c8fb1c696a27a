/**
 * Compares the accounts' alerts, as their service keeps them, with what the log says of them.
 *
 * Three things must agree: each alert and the last rule of its key; each enabled alert and the prices of now, at which its
 * condition must not hold, or it would have fired; each event and a trigger of its version. Rules, prices and rates come
 * from the log by a plain fold. The platform goes on meanwhile, so what differs is read again: only what is unchanged
 * after {@link SETTLE_MS} is a difference.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { eventOf } from '#infra/kafka/codec.ts'
import { type LogAccess, rangesOf } from '#infra/kafka/log-access.ts'
import type { AlertRuleChanged, StoredRule } from '#schemas/events/alert-rule-changed.ts'
import type { AlertTriggered, StoredTrigger } from '#schemas/events/alert-triggered.ts'
import { PROVIDER_PARTITIONS, type TopicKey } from '#schemas/topics.ts'
import { type BestPrices, decisiveNumber, holds, parseThreshold } from '#schemas/values/alert.ts'
import { CLOCK_SLACK_MS } from '#schemas/values/event-time.ts'
import { parseRate, type Rate, USD_RATE } from '#schemas/values/money.ts'
import { CAME_MEANWHILE, compare, type Findings, leaveOut, noFindings } from '#streams/runner/findings.ts'
import type { VerifyTask } from '#streams/runner/view.ts'

/** The tables of alerts, as the service that owns them reads them. */
export interface StoredAlerts {
  rules(take: (rule: StoredRule) => void): Promise<void>
  /** Passes the triggers that all events were recorded of. */
  triggers(take: (trigger: StoredTrigger) => void): Promise<void>
}

interface Pair {
  expected: string | undefined
  found: string | undefined
}

/** Longer than a change takes from Postgres to the log, and a trigger back. */
const SETTLE_MS = 15_000
const READ_EVERY_MS = 1_500
const WAITS = 'waits'
const FIRED = 'has fired'

export async function verifyAlerts({ access, report }: VerifyTask, stored: StoredAlerts): Promise<Findings> {
  const until = performance.now() + SETTLE_MS
  const first = await readPairs(access, stored, report)
  let differing = [...first].filter(([, pair]) => differs(pair))
  const moved: string[] = []
  while (differing.length > 0 && performance.now() < until) {
    report(`looking again at ${differing.length} that differ`)
    await pause(READ_EVERY_MS)
    const again = await readPairs(access, stored, () => undefined)
    const isAsBefore = ([row, pair]: [string, Pair]): boolean => {
      const now = again.get(row)
      return now !== undefined && now.expected === pair.expected && now.found === pair.found
    }
    moved.push(...differing.filter(one => !isAsBefore(one)).map(([row]) => row))
    differing = differing.filter(isAsBefore)
  }
  for (const row of moved) first.delete(row)
  return findingsOf(first, moved.length)
}

const differs = ({ expected, found }: Pair): boolean => expected !== found

function findingsOf(rows: ReadonlyMap<string, Pair>, moved: number): Findings {
  const findings = noFindings()
  for (const [row, { expected, found }] of rows) compare(findings, row, expected, found)
  for (let each = 0; each < moved; each++) leaveOut(findings, CAME_MEANWHILE)
  return findings
}

/** All rows as they are now; the tables are read first, so that the log can be ahead of it but not behind. */
async function readPairs(
  access: LogAccess,
  stored: StoredAlerts,
  report: (step: string) => void,
): Promise<Map<string, Pair>> {
  report('reading the accounts')
  const alerts = new Map<string, StoredRule>()
  await stored.rules(rule => void alerts.set(rule.id, rule))
  const events = new Map<string, { trigger: string; text: string }>()
  await stored.triggers(row => {
    events.set(row.id, { trigger: `${row.alert_id}@${row.alert_version}`, text: textOfTrigger(row) })
  })
  report('reading the log')
  const rules = await readRules(access)
  const market = { best: await readBest(access), rates: await readRates(access) }
  const { triggers, isWhole } = await readTriggers(access)
  const rows = new Map<string, Pair>()
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

function isMet(
  rule: StoredRule,
  { best, rates }: { best: ReadonlyMap<number, BestPrices>; rates: ReadonlyMap<string, Rate> },
): boolean {
  const { kind, item_id, threshold_value, threshold_currency } = rule
  const prices = best.get(item_id) ?? { ask: undefined, bid: undefined }
  const decisive = decisiveNumber(kind, prices, rates.get(threshold_currency ?? ''))
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
  // biome-ignore lint/suspicious/noExplicitAny: the topic determines the shape.
  take: (record: { partition: number; timestamp: number; key: string; value: any }) => void,
): Promise<{ isWhole: boolean }> {
  const { topic, ranges } = await rangesOf(access, key, undefined)
  for await (const page of access.reader.range(topic, ranges)) {
    for (const { partition, timestamp, key: name, value } of page) {
      const decoded = eventOf(access.kafka.codec, value)
      if (decoded !== undefined) take({ partition, timestamp, key: String(name), value: decoded?.value ?? null })
    }
  }
  return { isWhole: [...ranges.values()].every(({ from }) => from === 0) }
}

async function readRules(access: LogAccess): Promise<Map<string, AlertRuleChanged>> {
  const rules = new Map<string, AlertRuleChanged>()
  await scan(access, 'alertRules', ({ key, value }) => {
    if (value === null) rules.delete(key)
    else rules.set(key, value)
  })
  return rules
}

async function readTriggers(access: LogAccess): Promise<{ triggers: Map<string, Set<string>>; isWhole: boolean }> {
  const triggers = new Map<string, Set<string>>()
  const { isWhole } = await scan(access, 'alertsTriggered', ({ value }) => {
    const key = `${value.alert_id}@${value.version}`
    triggers.set(key, (triggers.get(key) ?? new Set()).add(textOfTrigger(value)))
  })
  return { triggers, isWhole }
}

/** The best prices of every item by the book's changelog, whose partitions are those of asks, then those of bids. */
async function readBest(access: LogAccess): Promise<Map<number, BestPrices>> {
  const prices = new Map<string, number>()
  await scan(access, 'book', ({ partition, key, value }) => {
    const [kind, provider, item] = key.split('|')
    if (kind !== 'row') return
    const row = `${item}|${partition < PROVIDER_PARTITIONS ? 'ask' : 'bid'}|${provider}`
    if (value === null) prices.delete(row)
    else prices.set(row, value.price_micro_usd)
  })
  const best = new Map<number, BestPrices>()
  for (const [row, micro] of prices) {
    const [item, side] = row.split('|')
    const known = best.get(Number(item)) ?? { ask: undefined, bid: undefined }
    if (side === 'ask') known.ask = Math.min(known.ask ?? micro, micro)
    else known.bid = Math.max(known.bid ?? micro, micro)
    best.set(Number(item), known)
  }
  return best
}

/**
 * The table with the latest time, of two equal ones the later in the log; a table is ignored when it holds a rate that is
 * none, or when its time lies after that at which the log took it.
 */
async function readRates(access: LogAccess): Promise<Map<string, Rate>> {
  let inForce = { asOf: 0, rates: new Map([['USD', USD_RATE]]) }
  await scan(access, 'fx', ({ value, timestamp }) => {
    if (value.as_of - timestamp > CLOCK_SLACK_MS) return
    const rates = new Map<string, Rate>()
    for (const [code, text] of Object.entries<string>(value.rates)) {
      const rate = parseRate(text)
      if (rate) rates.set(code, rate)
    }
    const isWhole = rates.size === Object.keys(value.rates).length && value.rates.USD === '1'
    if (isWhole && value.as_of >= inForce.asOf) inForce = { asOf: value.as_of, rates }
  })
  return inForce.rates
}
