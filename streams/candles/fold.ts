/**
 * Folds changes of asks into candle_parts and candle_standing. Sole writer of both.
 *
 * A change holds both what it found and what it left, so a part opens without any other state, and nothing is kept between flushes.
 * Invariant: folding changes one by one, in several batches, or again, and merging the results, gives the same part (tested as laws of
 * `mergeParts`; ClickHouse merges by the same rules, table.ts). So a batch that is written twice, or by a former owner of the partition
 * as well, leaves the same tables.
 */
import { type Batcher, RowBuffer } from '#infra/clickhouse/batcher.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import type { DayClosed } from '#schemas/events/day-closed.ts'
import { CANDLE_INTERVALS } from '#schemas/values/candle-interval.ts'
import type { ResolveItem } from '#schemas/values/catalog-item.ts'
import { timeFault } from '#schemas/values/event-time.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { parseRate, toMicroUsd } from '#schemas/values/money.ts'
import { unstorable } from '#schemas/values/storable.ts'
import { OK, type Outcome, type StreamRecord } from '#streams/runner/outcome.ts'
import type { RowSink } from '#streams/runner/sink-runner.ts'
import { candleParts, candleStanding, type Edge, type FoldedAsk, type Part } from './table.ts'

const LOWEST_VERSION = 0

export function openCandleFold(batcher: Batcher): RowSink {
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
      for (const { itemId, provider, newest, parts: folded } of batch.values()) {
        standing.add({ item_id: itemId, provider, ...newest })
        for (const part of folded) parts.add(rowOfPart(part))
      }
      batch.clear()
      await batcher.add([parts, standing])
    },
  }
}

/**
 * Opens the fold of a partition of market.day-closes, which fills the daily parts.
 *
 * A close is an ask that was listed all day: the one before it in its file was listed at the day's start. Versions are the lowest
 * that there are, so a day that the book has seen keeps its own end; a file that is published twice leaves the same table, and
 * days beyond the retention expire as always. Current asks do not come from history: candle_standing is not touched. `history`
 * reports names that the catalog lacks.
 */
export function openDayCandleFold(batcher: Batcher, idOf: ResolveItem): RowSink {
  const rows = new RowBuffer(candleParts)
  return {
    apply: record =>
      record.event === 'DayClosed' ? foldClose(rows, record, idOf) : { kind: 'skip', reason: 'other_event' },
    flush: () => batcher.add([rows]),
  }
}

function foldClose(rows: RowBuffer, record: StreamRecord, idOf: ResolveItem): Outcome {
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
  const part: Part = {
    intervalMs: DAY_MS,
    itemId,
    bucket: day,
    provider,
    opening: { ...edge, standing: previous_price !== null, micro: before, quantity: previous_listings ?? 0 },
    closing: { ...edge, standing: !close.is_last, micro, quantity: close.is_last ? 0 : (listings ?? 0) },
    low: Math.min(micro, before),
    high: Math.max(micro, before),
    falls: listings !== null && fall > 0 ? new Map([[LOWEST_VERSION, fall]]) : new Map(),
  }
  rows.add(rowOfPart(part))
  return OK
}

const rowOfPart = (part: Part): object => ({
  ...part,
  interval_s: part.intervalMs / 1000,
  item_id: part.itemId,
  bucket: part.bucket / 1000,
})

export type CandleBatch = Map<string, FoldedAsk>

const WIDTHS_MS = Object.values(CANDLE_INTERVALS).map(({ ms }) => ms)
const NO_FALLS: ReadonlyMap<number, number> = new Map()

export function foldChange(batch: CandleBatch, change: BookChanged, version: number): void {
  const { item_id: itemId, provider } = change
  const { opening, closing } = edgesOf(change, version)
  const low = Math.min(opening.micro, closing.micro)
  const high = Math.max(opening.micro, closing.micro)
  const fall = change.previous_quantity - change.quantity
  const falls = fall > 0 ? new Map([[version, fall]]) : NO_FALLS
  const key = `${itemId}|${provider}`
  let folded = batch.get(key)
  if (folded === undefined) {
    folded = { itemId, provider, newest: closing, parts: [] }
    batch.set(key, folded)
  } else if (folded.newest.version < version) folded.newest = closing
  for (const intervalMs of WIDTHS_MS) {
    const bucket = change.seen_at - (change.seen_at % intervalMs)
    const part: Part = { intervalMs, itemId, bucket, provider, opening, closing, low, high, falls }
    const at = folded.parts.findLastIndex(known => known.bucket === bucket && known.intervalMs === intervalMs)
    const before = folded.parts[at]
    if (before) folded.parts[at] = mergeParts(before, part)
    else folded.parts.push(part)
  }
}

/** Merges the folds of two sets of changes of the same bucket; the sets may overlap. */
export function mergeParts(a: Part, b: Part): Part {
  return {
    ...a,
    opening: a.opening.version <= b.opening.version ? a.opening : b.opening,
    closing: a.closing.version >= b.closing.version ? a.closing : b.closing,
    low: Math.min(a.low, b.low),
    high: Math.max(a.high, b.high),
    falls: b.falls.size === 0 ? a.falls : new Map([...a.falls, ...b.falls]),
  }
}

/** The asks that a change found and left; where there was none, the one that it brought, or took away. */
function edgesOf(change: BookChanged, version: number): { opening: Edge; closing: Edge } {
  const { seen_at: at, price_micro_usd: micro, previous_micro_usd: previous } = change
  const price = micro ?? previous
  if (price === null) throw new Error(`a change of ${change.provider} for item ${change.item_id} holds no price`)
  const edge = (listed: number | null, quantity: number): Edge =>
    listed === null
      ? { version, standing: false, micro: price, quantity: 0, at }
      : { version, standing: true, micro: listed, quantity, at }
  return { opening: edge(previous, change.previous_quantity), closing: edge(micro, change.quantity) }
}
