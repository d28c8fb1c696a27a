/**
 * Folds changes, and closes of history files, into changes and provider_days.
 *
 * Sole writer of both. A change is keyed by its partition and version and a day merges by version, so a
 * batch that is written twice, or by a former owner of the partition as well, leaves the same tables.
 */
import { type Batcher, RowBuffer } from '#infra/clickhouse/batcher.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import type { DayClosed } from '#schemas/events/day-closed.ts'
import type { ResolveItem } from '#schemas/values/catalog-item.ts'
import { timeFault } from '#schemas/values/event-time.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { parseRate, toMicroUsd } from '#schemas/values/money.ts'
import { unstorable } from '#schemas/values/storable.ts'
import { OK } from '#streams/runner/outcome.ts'
import type { RowSink } from '#streams/runner/sink-runner.ts'
import { changes, type Day, historyVersion, NO_PRICE, providerDays } from './table.ts'

const UNKNOWN = -1

export function openHistoryFold(batcher: Batcher): RowSink {
  let days = new Map<string, Day>()
  const rows = new RowBuffer(changes)
  const dayRows = new RowBuffer(providerDays)
  return {
    apply(record) {
      if (record.event !== 'BookChanged') return OK
      const change: BookChanged = record.value
      const fault = unstorable(change.item_id, change.seen_at)
      if (fault) return { kind: 'deadLetter', ...fault }
      rows.add({ ...change, partition: record.partition, offset: record.version })
      foldDay(days, change, record.version)
      return OK
    },
    async flush() {
      for (const day of days.values()) dayRows.add(day)
      days = new Map()
      await batcher.add([rows, dayRows])
    },
  }
}

/**
 * Opens the fold of a partition of market.day-closes, which fills provider_days.
 *
 * Versions are below all of the book's own, so where both have a day the book's row counts; among files the later record
 * does. A row is keyed by item, provider and day, so a file that is published twice leaves the same table. A close that ends
 * its file is a withdrawal at the day's end.
 */
export function openDayCloseFold(batcher: Batcher, idOf: ResolveItem): RowSink {
  const rows = new RowBuffer(providerDays)
  return {
    apply(record) {
      if (record.event !== 'DayClosed') return { kind: 'skip', reason: 'other_event' }
      const close: DayClosed = record.value
      const { market_hash_name: name, phase, provider, day } = close
      const early = timeFault(day, record.appendedAt)
      if (early) return { kind: 'deadLetter', ...early }
      const itemId = idOf(name, phase)
      if (itemId === undefined) return { kind: 'unresolved', name, phase, provider, observedAt: day }
      const rate = parseRate(close.usd_rate)
      if (!rate) return { kind: 'deadLetter', reason: 'unusable_rate', detail: close.usd_rate }
      const fault = unstorable(itemId, day)
      if (fault) return { kind: 'deadLetter', ...fault }
      const version = historyVersion(record.version)
      rows.add({
        item_id: itemId,
        side: 'ask',
        provider,
        day: Math.floor(day / DAY_MS),
        priced: {
          version,
          price: close.price,
          price_micro_usd: toMicroUsd(close.price, rate),
          currency: close.currency,
        },
        closing: { version, listed: !close.is_last, quantity: close.listings ?? UNKNOWN },
      } satisfies Day)
      return OK
    },
    flush: () => batcher.add([rows]),
  }
}

/** Folds one change into the days of a batch; changes come in the order of the log. */
function foldDay(days: Map<string, Day>, change: BookChanged, version: number): void {
  const { item_id, side, provider, price, price_micro_usd, currency, quantity } = change
  const day = Math.floor(change.seen_at / DAY_MS)
  const key = `${item_id}|${side}|${provider}|${day}`
  const priced = price === null || price_micro_usd === null ? undefined : { version, price, price_micro_usd, currency }
  days.set(key, {
    item_id,
    side,
    provider,
    day,
    priced: priced ?? days.get(key)?.priced ?? NO_PRICE,
    closing: { version, listed: price !== null, quantity },
  })
}
