/**
 * Writes closes of history files into the daily parts of candle_parts.
 *
 * Part of that table's sole writer. A close is an ask that was listed all day: the one before it in its file was listed at the
 * day's start. Versions are the lowest that there are, so a day that the book has seen keeps its own end. Merging is
 * idempotent, so a file that is published twice leaves the same table; days beyond the retention expire as always. Current
 * asks do not come from history: candle_standing is not touched. `history` reports names that the catalog lacks.
 */
import type { Batcher } from '#infra/clickhouse/batcher.ts'
import { RowBuffer } from '#infra/clickhouse/row-buffer.ts'
import type { DayClosed } from '#schemas/events/day-closed.ts'
import { CANDLE_INTERVALS } from '#schemas/values/candle-interval.ts'
import { timeFault } from '#schemas/values/event-time.ts'
import { parseRate, toMicroUsd } from '#schemas/values/money.ts'
import { OK, type Outcome, type StreamRecord } from '#streams/runner/outcome.ts'
import type { PartitionSink } from '#streams/runner/sink-runner.ts'
import { unstorable } from '#streams/runner/storable.ts'
import { candleParts, writePart } from './table.ts'

/** Finds the item of a name and phase. */
export type IdOf = (name: string, phase: string | null) => number | undefined

const LOWEST_VERSION = 0
const { ms: DAY_MS } = CANDLE_INTERVALS['1d']

/** Opens the sink of one partition. */
export function openDayCandleSink(batcher: Batcher, idOf: IdOf): PartitionSink {
  const rows = new RowBuffer(candleParts)
  return {
    position: undefined,
    apply: record =>
      record.event === 'DayClosed' ? take(rows, record, idOf) : { kind: 'skip', reason: 'other_event' },
    flush: () => batcher.add([rows]),
    close: async () => undefined,
  }
}

function take(rows: RowBuffer, record: StreamRecord, idOf: IdOf): Outcome {
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
