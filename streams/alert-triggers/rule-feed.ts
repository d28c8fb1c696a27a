/**
 * The rules of the partitions that this process has, read to their end and then followed.
 *
 * Reads accounts.alert-rules, which is partitioned as the changes of items are; writes nothing. One loop fetches for all
 * partitions, because fetches of one connection wait for each other. Invariant: a partition's records are delivered in their
 * order, none left out, to the last who opened it; what cannot be read is counted, logged and skipped.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { eventOf } from '#infra/kafka/codec.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { otherTopic } from '#infra/kafka/follower.ts'
import { type LogRecord, openRangeReader, type RangeReader } from '#infra/kafka/range-reader.ts'
import { openBackoff } from '#infra/kafka/refusal.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import { Refused } from '#infra/runtime/refused.ts'
import type { TopicIds } from '#infra/runtime/role.ts'
import type { AlertRuleChanged } from '#schemas/events/alert-rule-changed.ts'

type OnRule = (alertId: string, changed: AlertRuleChanged | undefined) => void

export interface RuleFeed {
  /** Delivers all rules of a partition and then what follows; resolves at the present end with the function that stops it. */
  open(partition: number, onRule: OnRule): Promise<() => void>
  /** Resolves when all that the log held of a partition's rules at the call has been delivered. */
  upToDate(partition: number): Promise<void>
  close(): Promise<void>
}

interface Reading {
  partition: number
  next: number
  onRule: OnRule
  waiters: { to: number; resolve: () => void }[]
}

interface FeedOptions {
  kafka: KafkaConnection
  ids: TopicIds
  log: Log
  metrics: Metrics
  fail(error: Error): void
  fetchBytes: number
}

const FETCH_WAIT_MS = 100
const IDLE_MS = 20

export async function openRuleFeed(options: FeedOptions): Promise<RuleFeed> {
  const { kafka, ids, fail, fetchBytes } = options
  const topic = kafka.topicName('alertRules')
  const readings = new Map<number, Reading>()
  const ending = new AbortController()
  const reader = await openRangeReader(kafka, [topic], { fetchBytes })
  // Its fetches wait for records; those of the first reading must not wait behind them.
  const follower = await openRangeReader(kafka, [topic], { fetchBytes })
  const deliver = openDelivery(options)

  const followAll = async (): Promise<void> => {
    const backoff = openBackoff(() => performance.now())
    while (!ending.signal.aborted) {
      const current = [...readings.values()]
      if (current.length === 0) {
        await pause(IDLE_MS)
        continue
      }
      const fetched = await fetchAfter(follower, topic, current).catch(async error => {
        await pause(backoff.failed(error), undefined, { signal: ending.signal }).catch(() => undefined)
        return undefined
      })
      if (fetched === undefined) continue
      backoff.succeeded()
      for (const { partition, records, next } of fetched) {
        const reading = current.find(one => one.partition === partition)
        if (reading === undefined || readings.get(partition) !== reading) continue
        for (const record of records) await deliver(record, reading.onRule)
        reading.next = next
        resolveWaiters(reading)
      }
    }
  }
  const following = followAll().catch(error => {
    if (!ending.signal.aborted) fail(error)
  })
  ending.signal.onabort = ids.onChange(['alertRules'], () => fail(new Refused(otherTopic('alertRules'))))
  return {
    async open(partition, onRule) {
      const end = await reader.end(topic, partition)
      for await (const page of reader.range(topic, new Map([[partition, { from: 0, to: end }]])))
        for (const record of page) deliver(record, onRule)
      const reading: Reading = { partition, next: end, onRule, waiters: [] }
      const former = readings.get(partition)
      readings.set(partition, reading)
      if (former) resolveWaiters(former, true)
      return () => {
        if (readings.get(partition) === reading) readings.delete(partition)
        resolveWaiters(reading, true)
      }
    },
    async upToDate(partition) {
      const reading = readings.get(partition)
      if (reading === undefined) return
      const to = await reader.stableEnd(topic, partition)
      if (reading.next >= to || readings.get(partition) !== reading) return
      await new Promise<void>(resolve => void reading.waiters.push({ to, resolve }))
    },
    async close() {
      ending.abort()
      await following
      await reader.close()
      await follower.close()
    },
  }
}

async function fetchAfter(
  reader: RangeReader,
  topic: string,
  readings: readonly Reading[],
): Promise<{ partition: number; records: LogRecord[]; next: number }[]> {
  const next = new Map(readings.map(reading => [reading.partition, reading.next]))
  const fetched = await reader.fetch(topic, next, FETCH_WAIT_MS)
  return fetched.map(({ partition, records }) => ({ partition, records, next: next.get(partition) ?? 0 }))
}

/** Resolves the waits for what has been delivered, or all when nothing more will be. */
function resolveWaiters(reading: Reading, isOver = false): void {
  const { waiters } = reading
  if (waiters.length === 0) return
  reading.waiters = waiters.filter(({ to, resolve }) => {
    if (!isOver && reading.next < to) return true
    resolve()
    return false
  })
}

function openDelivery({ kafka, log, metrics }: FeedOptions): (record: LogRecord, onRule: OnRule) => void {
  const unreadable = metrics.counter('marketlog_alert_rules_unreadable_total', 'Records of rules that cannot be read.')
  return ({ key, value, offset }, onRule) => {
    const id = key?.toString() ?? ''
    if (value === null) return onRule(id, undefined)
    const decoded = eventOf(kafka.codec, value)
    if (decoded?.event === 'AlertRuleChanged') return onRule(id, decoded.value)
    unreadable.inc()
    log.warn({ offset, key: id }, 'a record of accounts.alert-rules cannot be read')
  }
}
