/**
 * Writes changes and provider_days in ClickHouse.
 *
 * Sole writer of both. A change is keyed by its partition and offset and a day merges by log offset, so a
 * batch that is written twice, or by a former owner of the partition as well, leaves the same tables;
 * the group's committed offset, which follows the confirmed write, is position enough.
 */
import type { Batcher } from '#infra/clickhouse/batcher.ts'
import { RowBuffer } from '#infra/clickhouse/row-buffer.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { OK } from '#streams/runner/outcome.ts'
import type { PartitionSink } from '#streams/runner/sink-runner.ts'
import { unstorable } from '#streams/runner/storable.ts'
import { type Day, foldDay } from './step.ts'
import { changes, providerDays, writeChange, writeDay } from './table.ts'

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
