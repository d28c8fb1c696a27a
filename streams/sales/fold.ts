/**
 * Folds completed sales into rows of sales and sales_by_time.
 *
 * A sale's amount is converted at the rate that it carries, so a replay converts alike. Rows are keyed by the sale's identity and its
 * first record in the log wins, so neither a replay nor a sale that a provider reports again changes what is served.
 */
import { type Batcher, RowBuffer } from '#infra/clickhouse/batcher.ts'
import type { ObservationRejected } from '#schemas/events/observation.ts'
import type { SaleObserved } from '#schemas/events/sale-observed.ts'
import type { ResolveItem } from '#schemas/values/catalog-item.ts'
import { timeFault } from '#schemas/values/event-time.ts'
import { parseRate, toMicroUsd } from '#schemas/values/money.ts'
import { unstorable } from '#schemas/values/storable.ts'
import { OK, type Outcome } from '#streams/runner/outcome.ts'
import type { RowSink } from '#streams/runner/sink-runner.ts'
import { type SaleRow, sales, salesByTime } from './table.ts'

export function openSalesFold(batcher: Batcher, resolve: ResolveItem): RowSink {
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
      const stored = { ...row, version: Number.MAX_SAFE_INTEGER - version }
      for (const buffer of rows) buffer.add(stored)
      return OK
    },
    flush: () => batcher.add(rows),
  }
}

/** The row of a sale, or another outcome of the record, which was appended at `appendedAt`. */
export function rowOfSale(sale: SaleObserved, resolve: ResolveItem, appendedAt: number): SaleRow | Outcome {
  // Before its name: one that the catalog lacks may be taken again later, by then a record of the past.
  const early = timeFault(Math.max(sale.sold_at, sale.observed_at), appendedAt)
  if (early) return { kind: 'deadLetter', ...early }
  const itemId = resolve(sale.market_hash_name, sale.phase)
  if (itemId === undefined) {
    const { market_hash_name: name, phase, provider, observed_at: observedAt } = sale
    return { kind: 'unresolved', name, phase, provider, observedAt }
  }
  const fault = unstorable(itemId, sale.sold_at) ?? unstorable(itemId, sale.observed_at)
  if (fault) return { kind: 'deadLetter', ...fault }
  if (!(sale.price > 0)) {
    return { kind: 'deadLetter', reason: 'price_out_of_range', detail: `price ${sale.price}` }
  }
  const microUsd = microUsdOf(sale)
  if (microUsd === undefined) {
    return { kind: 'deadLetter', reason: 'unusable_rate', detail: `${sale.price} at rate ${sale.usd_rate}` }
  }
  const { market_hash_name, phase, stickers, charms, ...same } = sale
  return {
    ...same,
    item_id: itemId,
    price_micro_usd: microUsd,
    has_stickers: stickers !== null,
    stickers: stickers ?? [],
    has_charms: charms !== null,
    charms: charms ?? [],
  }
}

export const isRow = (result: SaleRow | Outcome): result is SaleRow => 'item_id' in result

function microUsdOf(sale: SaleObserved): number | undefined {
  const rate = parseRate(sale.usd_rate)
  if (rate === undefined) return undefined
  try {
    return toMicroUsd(sale.price, rate)
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}
