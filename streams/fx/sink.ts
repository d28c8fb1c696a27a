/** Writes fx_days in ClickHouse. Sole writer. Rows are keyed by day and currency, so a batch that is written twice leaves the same table. */
import type { Batcher } from '#infra/clickhouse/batcher.ts'
import { RowBuffer } from '#infra/clickhouse/row-buffer.ts'
import { OK } from '#streams/runner/outcome.ts'
import type { RowSink } from '#streams/runner/sink-runner.ts'
import { foldRates } from './fold.ts'
import { type DayRate, fxDays, writeRate } from './table.ts'

/** Opens the sink of the topic's partition. */
export function openFxSink(batcher: Batcher): RowSink {
  const newest = new Map<string, DayRate>()
  const rows = new RowBuffer(fxDays)
  return {
    apply: record => (record.event === 'FxRatesPublished' ? foldRates(newest, record) : OK),
    flush() {
      for (const rate of newest.values()) writeRate(rows, rate)
      newest.clear()
      return batcher.add([rows])
    },
    close: async () => undefined,
  }
}
