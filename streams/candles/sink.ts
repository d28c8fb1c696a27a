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
import { unstorable } from '#schemas/values/storable.ts'
import { candleParts } from '#schemas/views/clickhouse/candle-parts.ts'
import { candleStanding } from '#schemas/views/clickhouse/candle-standing.ts'
import { OK } from '#streams/runner/outcome.ts'
import type { PartitionSink } from '#streams/runner/sink-runner.ts'
import { type CandleBatch, type Edge, type FoldedAsk, foldChange, type Part } from './step.ts'

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

/** Appends a part. */
export function writePart(rows: RowBuffer, part: Part): void {
  rows.u32(part.intervalMs / 1000)
  rows.u32(part.itemId)
  rows.u32(part.bucket / 1000)
  rows.text(part.provider)
  writeEdge(rows, part.opening)
  writeEdge(rows, part.closing)
  rows.i64(part.low)
  rows.i64(part.high)
  rows.length(part.falls.size)
  for (const [offset, units] of part.falls) {
    rows.i64(offset)
    rows.u32(units)
  }
  rows.endRow()
}

function writeEdge(rows: RowBuffer, edge: Edge): void {
  rows.i64(edge.version)
  rows.bool(edge.standing)
  rows.i64(edge.micro)
  rows.i32(edge.quantity)
  rows.i64(edge.at)
}

function writeStanding(rows: RowBuffer, { itemId, provider, newest }: FoldedAsk): void {
  rows.u32(itemId)
  rows.text(provider)
  rows.bool(newest.standing)
  rows.i64(newest.micro)
  rows.i32(newest.quantity)
  rows.i64(newest.at)
  rows.i64(newest.version)
  rows.endRow()
}
