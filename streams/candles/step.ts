/**
 * Folds changes of asks into candle parts and standing asks.
 *
 * Pure: what a fold knows is in its arguments. A change tells both what it found and what it left, so a
 * part opens without any other state. Invariant: folding changes one by one, in several batches, or
 * again, and merging the results, gives the same part (tested as laws of `mergeParts`; ClickHouse
 * merges by the same rules, schemas/views/clickhouse/candle-parts.ts).
 */
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { CANDLE_INTERVALS, type CandlePart, type EdgeAsk } from '#schemas/views/candle.ts'

/** An edge with the log offset of the change that tells of it. */
export interface Edge extends EdgeAsk {
  version: number
}

/** What some changes say of a provider's bucket. */
export interface Part extends Omit<CandlePart, 'opening' | 'closing' | 'falls'> {
  intervalMs: number
  itemId: number
  opening: Edge
  closing: Edge
  /** Offset of a change → how many listings it took away. */
  falls: Map<number, number>
}

/** A provider's newest ask for an item. */
export interface Standing extends Edge {
  itemId: number
  provider: string
}

/** What a batch of changes comes to. */
export interface CandleBatch {
  parts: Map<string, Part>
  standing: Map<string, Standing>
}

const WIDTHS_MS = Object.values(CANDLE_INTERVALS).map(({ ms }) => ms)

/** A batch without changes. */
export const emptyBatch = (): CandleBatch => ({ parts: new Map(), standing: new Map() })

/** Folds one change of an ask into a batch. Throws when the change holds no price at all. */
export function foldChange(batch: CandleBatch, change: BookChanged, offset: number): void {
  const opening = foundBy(change, offset)
  const closing = leftBy(change, offset)
  const key = `${change.item_id}|${change.provider}`
  const known = batch.standing.get(key)
  if (known === undefined || known.version < offset) {
    batch.standing.set(key, { itemId: change.item_id, provider: change.provider, ...closing })
  }
  const fall = change.previous_quantity - change.quantity
  for (const intervalMs of WIDTHS_MS) {
    const bucket = change.seen_at - (change.seen_at % intervalMs)
    const partKey = `${key}|${intervalMs}|${bucket}`
    const part: Part = {
      intervalMs,
      itemId: change.item_id,
      bucket,
      provider: change.provider,
      opening,
      closing,
      low: Math.min(opening.micro, closing.micro),
      high: Math.max(opening.micro, closing.micro),
      falls: fall > 0 ? new Map([[offset, fall]]) : new Map(),
    }
    const before = batch.parts.get(partKey)
    batch.parts.set(partKey, before ? mergeParts(before, part) : part)
  }
}

/** Merges what two sets of changes say of the same bucket; the sets may overlap. */
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

/** The ask that a change found; where there was none, the one that it brought. */
function foundBy(change: BookChanged, version: number): Edge {
  const { previous_micro_usd: micro, previous_quantity: quantity, seen_at: at } = change
  if (micro !== null) return { version, standing: true, micro, quantity, at }
  return { version, standing: false, micro: priceOf(change), quantity: 0, at }
}

/** The ask that a change left; where there is none, the one that it took away. */
function leftBy(change: BookChanged, version: number): Edge {
  const { price_micro_usd: micro, quantity, seen_at: at } = change
  if (micro !== null) return { version, standing: true, micro, quantity, at }
  return { version, standing: false, micro: priceOf(change), quantity: 0, at }
}

function priceOf(change: BookChanged): number {
  const micro = change.price_micro_usd ?? change.previous_micro_usd
  if (micro === null) throw new Error(`a change of ${change.provider} for item ${change.item_id} holds no price`)
  return micro
}
