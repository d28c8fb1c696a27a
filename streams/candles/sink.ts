/**
 * Writes candle_parts and candle_standing in ClickHouse.
 *
 * Sole writer of both. Rows merge by version, so a batch that is written twice, or by a former owner
 * of the partition as well, leaves the same tables. Keeps nothing between flushes.
 */
import type { Batcher } from '#infra/clickhouse/batcher.ts'
import { RowBuffer } from '#infra/clickhouse/row-buffer.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import type { DayClosed } from '#schemas/events/day-closed.ts'
import { CANDLE_INTERVALS } from '#schemas/values/candle-interval.ts'
import type { ResolveItem } from '#schemas/values/catalog-item.ts'
import { timeFault } from '#schemas/values/event-time.ts'
import { parseRate, toMicroUsd } from '#schemas/values/money.ts'
import { unstorable } from '#schemas/values/storable.ts'
import { OK, type Outcome, type StreamRecord } from '#streams/runner/outcome.ts'
import type { RowSink } from '#streams/runner/sink-runner.ts'
import { type CandleBatch, foldChange } from './step.ts'
import { candleParts, candleStanding, writePart, writeStanding } from './table.ts'

const LOWEST_VERSION = 0
const { ms: DAY_MS } = CANDLE_INTERVALS['1d']

/** Opens the sink of a partition of market.book-changes. */
export function openCandleSink(batcher: Batcher): RowSink {
  const batch: CandleBatch = new Map()
  const parts = new RowBuffer(candleParts)
  const standing = new RowBuffer(candleStanding)
  return {
    apply(record) {
      if (record.event !== 'BookChanged') return OK
      const change: BookChanged = record.value
      if (change.side !== 'ask') return OK
      if (change.price_micro_usd === null && change.previous_micro_usd === null) {
        return { kind: 'deadLetter', reason: 'contradiction', detail: 'a change without any price' }
      }
      const fault = unstorable(change.item_id, change.seen_at)
      if (fault) return { kind: 'deadLetter', ...fault }
      foldChange(batch, change, record.version)
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

/**
 * Opens the sink of a partition of market.day-closes, which fills the daily parts.
 *
 * A close is an ask that was listed all day: the one before it in its file was listed at the day's start. Versions are the lowest
 * that there are, so a day that the book has seen keeps its own end; a file that is published twice leaves the same table, and
 * days beyond the retention expire as always. Current asks do not come from history: candle_standing is not touched. `history`
 * reports names that the catalog lacks.
 */
export function openDayCandleSink(batcher: Batcher, idOf: ResolveItem): RowSink {
  const rows = new RowBuffer(candleParts)
  return {
    apply: record =>
      record.event === 'DayClosed' ? takeClose(rows, record, idOf) : { kind: 'skip', reason: 'other_event' },
    flush: () => batcher.add([rows]),
    close: async () => undefined,
  }
}

function takeClose(rows: RowBuffer, record: StreamRecord, idOf: ResolveItem): Outcome {
  const close: DayClosed = record.value
  const { provider, day, price, previous_price, listings, previous_listings } = close
  const itemId = idOf(close.market_hash_name, close.phase)
  if (itemId === undefined) return { kind: 'skip', reason: 'unknown_name' }
  const rate = parseRate(close.usd_rate)
  if (!rate) return { kind: 'skip', reason: 'unusable_rate' }
  const fault = unstorable(itemId, day) ?? timeFault(day, record.appendedAt)
  if (fault) return { kind: 'skip', reason: fault.reason }
  const micro = toMicroUsd(price, rate)
  const before = previous_price === null ? micro : toMicroUsd(previous_price, rate)
  const fall = (previous_listings ?? 0) - (listings ?? 0)
  const edge = { version: LOWEST_VERSION, at: day }
  writePart(rows, {
    intervalMs: DAY_MS,
    itemId,
    bucket: day,
    provider,
    opening: { ...edge, standing: previous_price !== null, micro: before, quantity: previous_listings ?? 0 },
    closing: { ...edge, standing: !close.is_last, micro, quantity: close.is_last ? 0 : (listings ?? 0) },
    low: Math.min(micro, before),
    high: Math.max(micro, before),
    falls: listings !== null && fall > 0 ? new Map([[LOWEST_VERSION, fall]]) : new Map(),
  })
  return OK
}
