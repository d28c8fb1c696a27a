/**
 * Writes sales and sales_by_time in ClickHouse.
 *
 * Sole writer of both. Rows are keyed by the sale's identity and its first record in the log wins, so
 * neither a replay nor a sale that a provider reports again changes what is served.
 */
import type { Batcher } from '#infra/clickhouse/batcher.ts'
import { RowBuffer } from '#infra/clickhouse/row-buffer.ts'
import type { ObservationRejected } from '#schemas/events/observation.ts'
import type { ResolveItem } from '#schemas/values/catalog-item.ts'
import { OK } from '#streams/runner/outcome.ts'
import type { RowSink } from '#streams/runner/sink-runner.ts'
import { isRow, rowOfSale } from './step.ts'
import { sales, salesByTime, writeSale } from './table.ts'

/** Opens the sink of one partition. */
export function openSalesSink(batcher: Batcher, resolve: ResolveItem): RowSink {
  const rows = [new RowBuffer(sales), new RowBuffer(salesByTime)]
  return {
    apply({ event, value, version, appendedAt }) {
      if (event === 'ObservationRejected') {
        const { reason, raw }: ObservationRejected = value
        return { kind: 'deadLetter', reason, detail: raw.slice(0, 200) }
      }
      if (event !== 'SaleObserved') return { kind: 'skip', reason: 'no_sale' }
      const row = rowOfSale(value, resolve, appendedAt)
      if (!isRow(row)) return row
      for (const buffer of rows) writeSale(buffer, row, version)
      return OK
    },
    flush: () => batcher.add(rows),
    close: async () => undefined,
  }
}
