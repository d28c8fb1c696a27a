/** Writes fx_days in ClickHouse. Sole writer. Rows are keyed by day and currency, so a batch that is written twice leaves the same table. */
import type { Batcher } from '#infra/clickhouse/batcher.ts'
import { RowBuffer } from '#infra/clickhouse/row-buffer.ts'
import { OK } from '#streams/runner/outcome.ts'
import type { RowSink } from '#streams/runner/sink-runner.ts'
import { foldRates } from './fold.ts'
import { type DayRates, fxDays, writeRates } from './table.ts'

/** Opens the sink of the topic's partition. */
export function openFxSink(batcher: Batcher): RowSink {
  const days = new Map<number, DayRates>()
  const rows = new RowBuffer(fxDays)
  return {
    apply: record => (record.event === 'FxRatesPublished' ? foldRates(days, record) : OK),
    flush() {
      for (const [day, rates] of days) writeRates(rows, day, rates)
      days.clear()
      return batcher.add([rows])
    },
    close: async () => undefined,
  }
}
