/**
 * The market analytics in Redis: the pairs of arbitrage and the figures of all items.
 *
 * Pairs are columns of bytes, best net profit first: columns of fixed width let a reader filter hundreds of thousands of
 * rows in a millisecond without making an object of any. Numbers are little-endian, as every machine that this runs on has them.
 */
import type { z } from 'zod'
import type { indexesReply } from '#schemas/api/market.ts'
import type { Side } from '#schemas/events/book-changed.ts'

export interface ExcludedQuotes {
  stale: number
  down: number
  quarantined: number
}

export interface ArbitrageFacts {
  /** Provider keys by the number that rows carry. */
  providers: readonly string[]
  /** Left out by side and provider. */
  excluded: Record<Side, Record<string, ExcludedQuotes>>
}

/** The whole and its groups, largest first. */
export type MarketIndex = z.infer<typeof indexesReply>['data']

export interface SummaryFacts {
  /** Of the rows' JSON texts, joined by commas. */
  bytes: number
  crc: number
  /** By `group_by`. */
  indexes: Record<'item_type' | 'weapon_type', MarketIndex>
}

/** Pairs of an ask and a bid: the value `columns`. */
export const ARBITRAGE = { view: 'market-summary', name: 'arbitrage', format: 1 } as const

/** Figures of every item: the value `rows`, the texts as raw deflate, and `offsets`, item ids and the ends of their rows as 32-bit numbers. */
export const SUMMARY = { view: 'market-summary', name: 'summary', format: 1 } as const

/** The columns of arbitrage; a row is one index in all of them. */
export interface ArbitrageColumns {
  readonly rows: number
  readonly buyMicroUsd: Float64Array
  readonly sellMicroUsd: Float64Array
  readonly itemId: Uint32Array
  /** Units that both legs have. */
  readonly quantity: Uint32Array
  /** Milliseconds from the leg's last update to the snapshot's moment; negative when the update came later. */
  readonly buyAgeMs: Int32Array
  readonly sellAgeMs: Int32Array
  /** Numbers of providers in the head's list. */
  readonly buyProvider: Uint16Array
  readonly sellProvider: Uint16Array
}

const BYTES_PER_ROW = 8 + 8 + 4 + 4 + 4 + 4 + 2 + 2

/** Columns in one stretch of memory: of so many rows, or those whose bytes are given. */
export function arbitrageColumns(of: number | ArrayBuffer): ArbitrageColumns {
  const buffer = typeof of === 'number' ? new ArrayBuffer(of * BYTES_PER_ROW) : of
  const rows = buffer.byteLength / BYTES_PER_ROW
  if (!Number.isInteger(rows)) throw new Error('columns of arbitrage are cut off')
  let at = 0
  const next = (bytes: number): number => {
    const start = at
    at += rows * bytes
    return start
  }
  return {
    rows,
    buyMicroUsd: new Float64Array(buffer, next(8), rows),
    sellMicroUsd: new Float64Array(buffer, next(8), rows),
    itemId: new Uint32Array(buffer, next(4), rows),
    quantity: new Uint32Array(buffer, next(4), rows),
    buyAgeMs: new Int32Array(buffer, next(4), rows),
    sellAgeMs: new Int32Array(buffer, next(4), rows),
    buyProvider: new Uint16Array(buffer, next(2), rows),
    sellProvider: new Uint16Array(buffer, next(2), rows),
  }
}

export const columnBytes = ({ buyMicroUsd }: ArbitrageColumns): Uint8Array => new Uint8Array(buyMicroUsd.buffer)
