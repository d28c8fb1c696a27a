/**
 * Writes sales and sales_by_time in ClickHouse.
 *
 * Sole writer of both. Rows are keyed by the sale's identity and its first record in the log wins, so
 * neither a replay nor a sale that a provider reports again changes what is served; the group's
 * committed offset, which follows the confirmed write, is position enough.
 */
import type { Batcher } from '#infra/clickhouse/batcher.ts'
import { RowBuffer } from '#infra/clickhouse/row-buffer.ts'
import type { ObservationRejected } from '#schemas/events/observation.ts'
import { type SaleRow, sales, salesByTime } from '#schemas/views/clickhouse/sales.ts'
import { OK } from '#streams/runner/outcome.ts'
import type { PartitionSink } from '#streams/runner/sink-runner.ts'
import { isRow, type ResolveItem, rowOfSale } from './step.ts'

/** Opens the sink of one partition. */
export function openSalesSink(batcher: Batcher, resolve: ResolveItem): PartitionSink {
  const rows = [new RowBuffer(sales), new RowBuffer(salesByTime)]
  return {
    position: undefined,
    apply({ event, value, offset, appendedAt }) {
      if (event === 'ObservationRejected') {
        const { reason, raw }: ObservationRejected = value
        return { kind: 'deadLetter', reason, detail: raw.slice(0, 200) }
      }
      if (event !== 'SaleObserved') return { kind: 'skip', reason: 'no_sale' }
      const row = rowOfSale(value, resolve, appendedAt)
      if (!isRow(row)) return row
      for (const buffer of rows) writeSale(buffer, row, offset)
      return OK
    },
    flush: () => batcher.add(rows),
    close: async () => undefined,
  }
}

function writeSale(rows: RowBuffer, sale: SaleRow, offset: number): void {
  rows.u32(sale.item_id)
  rows.i64(sale.sold_at)
  rows.text(sale.provider)
  rows.text(sale.sale_id)
  rows.i64(sale.price)
  rows.text(sale.currency)
  rows.i64(sale.price_micro_usd)
  rows.text(sale.usd_rate)
  rows.nullableF64(sale.float)
  rows.nullableI32(sale.paint_seed)
  rows.bool(sale.has_stickers)
  rows.length(sale.stickers.length)
  for (const { name, slot, wear } of sale.stickers) {
    rows.text(name)
    rows.i32(slot)
    rows.f64(wear)
  }
  rows.bool(sale.has_charms)
  rows.length(sale.charms.length)
  for (const { name, pattern_id } of sale.charms) {
    rows.text(name)
    rows.i32(pattern_id)
  }
  rows.nullableText(sale.inspect_in_game)
  rows.nullableText(sale.screenshot_front)
  rows.nullableText(sale.screenshot_back)
  rows.i64(sale.observed_at)
  rows.i64(Number.MAX_SAFE_INTEGER - offset)
  rows.endRow()
}
