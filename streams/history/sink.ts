/**
 * Writes changes and provider_days in ClickHouse.
 *
 * Sole writer of both. A change is keyed by its partition and offset and a day merges by log offset, so a
 * batch that is written twice, or by a former owner of the partition as well, leaves the same tables;
 * the group's committed offset, which follows the confirmed write, is position enough.
 */
import type { Batcher } from '#infra/clickhouse/batcher.ts'
import { RowBuffer } from '#infra/clickhouse/row-buffer.ts'
import type { BookChanged, Change, Side } from '#schemas/events/book-changed.ts'
import { unstorable } from '#schemas/values/storable.ts'
import { changes } from '#schemas/views/clickhouse/changes.ts'
import { providerDays } from '#schemas/views/clickhouse/provider-days.ts'
import { OK, type StreamRecord } from '#streams/runner/outcome.ts'
import type { PartitionSink } from '#streams/runner/sink-runner.ts'
import { type Day, foldDay } from './step.ts'

const SIDES: Record<Side, number> = { ask: 1, bid: 2 }
const KINDS: Record<Change, number> = { added: 1, updated: 2, removed: 3 }

/** Opens the sink of one partition. */
export function openHistorySink(batcher: Batcher): PartitionSink {
  let days = new Map<string, Day>()
  const rows = new RowBuffer(changes)
  const dayRows = new RowBuffer(providerDays)
  return {
    position: undefined,
    apply(record) {
      if (record.event !== 'BookChanged') return OK
      const change: BookChanged = record.value
      const fault = unstorable(change.item_id, change.seen_at)
      if (fault) return { kind: 'deadLetter', ...fault }
      writeChange(rows, change, record)
      foldDay(days, change, record.offset)
      return OK
    },
    async flush() {
      for (const day of days.values()) writeDay(dayRows, day)
      days = new Map()
      await batcher.add([rows, dayRows])
    },
    close: async () => undefined,
  }
}

function writeChange(rows: RowBuffer, change: BookChanged, { partition, offset }: StreamRecord): void {
  rows.u32(change.item_id)
  rows.u8(SIDES[change.side])
  rows.i64(change.seen_at)
  rows.text(change.provider)
  rows.u8(KINDS[change.change])
  rows.nullableI64(change.price)
  rows.text(change.currency)
  rows.nullableI64(change.price_micro_usd)
  rows.text(change.usd_rate)
  rows.i32(change.quantity)
  rows.nullableI64(change.previous_micro_usd)
  rows.i32(change.previous_quantity)
  rows.u16(partition)
  rows.i64(offset)
  rows.endRow()
}

function writeDay(rows: RowBuffer, { itemId, side, provider, day, priced, closing }: Day): void {
  rows.u32(itemId)
  rows.u8(SIDES[side])
  rows.text(provider)
  rows.u16(day)
  rows.i64(priced?.version ?? -1)
  rows.i64(priced?.price ?? 0)
  rows.i64(priced?.microUsd ?? 0)
  rows.text(priced?.currency ?? '')
  rows.i64(closing.version)
  rows.bool(closing.listed)
  rows.i32(closing.quantity)
  rows.endRow()
}
