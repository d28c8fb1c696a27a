/**
 * Folds changes of asks into candle parts and the newest ask of each provider.
 *
 * A change holds both what it found and what it left, so a
 * part opens without any other state. Invariant: folding changes one by one, in several batches, or
 * again, and merging the results, gives the same part (tested as laws of `mergeParts`; ClickHouse
 * merges by the same rules, table.ts).
 */
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { CANDLE_INTERVALS } from '#schemas/values/candle-interval.ts'
import type { CandlePart, EdgeAsk } from './compose.ts'

/** An edge with the version of the change that it comes from. */
export interface Edge extends EdgeAsk {
  version: number
}

/** The fold of some changes of a provider's bucket. */
export interface Part extends Omit<CandlePart, 'opening' | 'closing' | 'falls'> {
  intervalMs: number
  itemId: number
  opening: Edge
  closing: Edge
  /** Offset of a change → how many listings it took away. */
  falls: ReadonlyMap<number, number>
}

/** The fold of a batch's changes of a provider's asks for an item. */
export interface FoldedAsk {
  itemId: number
  provider: string
  /** The newest ask. */
  newest: Edge
  /** One for each bucket of each width, those of the newest changes last. */
  parts: Part[]
}

/** The fold of a batch of changes, by item and provider. */
export type CandleBatch = Map<string, FoldedAsk>

const WIDTHS_MS = Object.values(CANDLE_INTERVALS).map(({ ms }) => ms)
const NO_FALLS: ReadonlyMap<number, number> = new Map()

/** Folds one change of an ask into a batch. Throws when the change holds no price at all. */
export function foldChange(batch: CandleBatch, change: BookChanged, version: number): void {
  const { item_id: itemId, provider } = change
  const opening = foundBy(change, version)
  const closing = leftBy(change, version)
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
