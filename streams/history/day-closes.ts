/**
 * Writes closes of history files into provider_days.
 *
 * Part of that table's sole writer. Versions lie below all of the book's own, so where both have a day the book's row
 * counts; among files the later record does. A row is keyed by item, provider and day, so a file that is published
 * twice leaves the same table. A close that ends its file is a withdrawal at the day's end.
 */
import type { Batcher } from '#infra/clickhouse/batcher.ts'
import { RowBuffer } from '#infra/clickhouse/row-buffer.ts'
import type { DayClosed } from '#schemas/events/day-closed.ts'
import { timeFault } from '#schemas/values/event-time.ts'
import { parseRate, toMicroUsd } from '#schemas/values/money.ts'
import { OK } from '#streams/runner/outcome.ts'
import type { PartitionSink } from '#streams/runner/sink-runner.ts'
import { unstorable } from '#streams/runner/storable.ts'
import { historyVersion, providerDays, writeDay } from './table.ts'

/** Finds the item of a name and phase. */
export type IdOf = (name: string, phase: string | null) => number | undefined

const DAY_MS = 86_400_000
const UNKNOWN = -1

/** Opens the sink of one partition. */
export function openDayCloseSink(batcher: Batcher, idOf: IdOf): PartitionSink {
  const rows = new RowBuffer(providerDays)
  return {
    position: undefined,
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
      const version = historyVersion(record.offset)
      const microUsd = toMicroUsd(close.price, rate)
      writeDay(rows, {
        itemId,
        side: 'ask',
        provider,
        day: Math.floor(day / DAY_MS),
        priced: { version, price: close.price, microUsd, currency: close.currency },
        closing: { version, listed: !close.is_last, quantity: close.listings ?? UNKNOWN },
      })
      return OK
    },
    flush: () => batcher.add([rows]),
    close: async () => undefined,
  }
}
