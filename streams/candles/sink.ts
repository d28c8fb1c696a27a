/**
 * Writes candle_parts and candle_standing in ClickHouse.
 *
 * Sole writer of both. Rows merge by log offset, so a batch that is written twice, or by a former owner
 * of the partition as well, leaves the same tables; the group's committed offset, which follows the
 * confirmed write, is position enough. Keeps nothing between flushes.
 */
import type { Batcher } from '#infra/clickhouse/batcher.ts'
import { RowBuffer } from '#infra/clickhouse/row-buffer.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { OK } from '#streams/runner/outcome.ts'
import type { PartitionSink } from '#streams/runner/sink-runner.ts'
import { unstorable } from '#streams/runner/storable.ts'
import { type CandleBatch, foldChange } from './step.ts'
import { candleParts, candleStanding, writePart, writeStanding } from './table.ts'

/** Opens the sink of one partition. */
export function openCandleSink(batcher: Batcher): PartitionSink {
  const batch: CandleBatch = new Map()
  const parts = new RowBuffer(candleParts)
  const standing = new RowBuffer(candleStanding)
  return {
    position: undefined,
    apply(record) {
      if (record.event !== 'BookChanged') return OK
      const change: BookChanged = record.value
      if (change.side !== 'ask') return OK
      if (change.price_micro_usd === null && change.previous_micro_usd === null) {
        return { kind: 'deadLetter', reason: 'contradiction', detail: 'a change without any price' }
      }
      const fault = unstorable(change.item_id, change.seen_at)
      if (fault) return { kind: 'deadLetter', ...fault }
      foldChange(batch, change, record.offset)
      return OK
    },
    async flush() {
      for (const folded of batch.values()) {
        writeStanding(standing, folded)
        for (const part of folded.parts) writePart(parts, part)
      }
      batch.clear()
      await batcher.add([parts, standing])
    },
    close: async () => undefined,
  }
}
