/**
 * The market analytics in Redis: the arbitrage snapshot and the market summary.
 *
 * Each is some immutable values named by version, and a head that names the version to read; a replaced version stays
 * for a time, so that a reader that has read the head finds what it names. All keys share one hash tag. Rows of
 * arbitrage are columns of bytes, best net profit first: columns of fixed width let a reader filter hundreds of thousands of
 * rows in a millisecond without making an object of any. Numbers are little-endian, as every machine that this runs
 * on has them. Sole writer: sink.ts.
 */
import type { Instant } from '#schemas/values/instant.ts'
import { parseStored } from '#schemas/values/stored-format.ts'

/** Why quotes of a provider take no part in arbitrage; counts of quotes. */
export interface ExcludedQuotes {
  stale: number
  down: number
  quarantined: number
}

/** What the head of the arbitrage snapshot holds. */
export interface ArbitrageHead {
  /** Of the columns and of itself: {@link MARKET_FORMAT} of its writer. */
  format?: number
  version: string
  /** The moment that ages and health were judged at. */
  as_of: Instant
  rows: number
  /** Chunks of the rows' columns. */
  chunks: number
  /** Provider keys by the number that rows carry. */
  providers: string[]
  /** Left out by provider and side. */
  excluded: { ask: Record<string, ExcludedQuotes>; bid: Record<string, ExcludedQuotes> }
}

/** One category of an index. */
export interface IndexGroup {
  group: string
  /** Dollars with two decimals. */
  marketcap_usd: string
  item_count: number
  included_count: number
  excluded_count: number
}

/** An index: the whole and its groups, largest first. */
export interface MarketIndex {
  total_marketcap_usd: string
  groups: IndexGroup[]
}

/** What the head of the market summary holds. */
export interface SummaryHead {
  /** Of the rows and of itself: {@link MARKET_FORMAT} of its writer. */
  format?: number
  version: string
  /** The moment of the summary. */
  as_of: Instant
  rows: number
  /** The rows' JSON texts, joined by commas: as they are, and as raw deflate that ends in a full flush. */
  body: { bytes: number; crc: number; chunks: number }
  /** By `group_by`. */
  indexes: { item_type: MarketIndex; weapon_type: MarketIndex }
}

/** The form in which this version writes both. In all forms a head names `version` and its number of chunks as these do. */
export const MARKET_FORMAT = 1

/** Reads the head of the arbitrage snapshot; throws where it is in a form that this version does not know. */
export const parseArbitrageHead = (text: string): ArbitrageHead =>
  parseStored('the arbitrage snapshot', text, { [MARKET_FORMAT]: head => head })

/** Reads the head of the market summary; throws where it is in a form that this version does not know. */
export const parseSummaryHead = (text: string): SummaryHead =>
  parseStored('the market summary', text, { [MARKET_FORMAT]: head => head })

/** Bytes of one stored value: large ones would hold other readers of the server up. */
export const CHUNK_BYTES = 4 * 2 ** 20

/** How long a replaced version stays. */
export const REPLACED_TTL_MS = 60_000

/** Key of the JSON text of {@link ArbitrageHead}. */
export const arbitrageHeadKey = (prefix = ''): string => `${prefix}{market}:arbitrage:head`

/** Key of a chunk of the arbitrage columns. */
export const arbitrageChunkKey = (version: string, chunk: number, prefix = ''): string =>
  `${prefix}{market}:arbitrage:${version}:${chunk}`

/** Key of the JSON text of {@link SummaryHead}. */
export const summaryHeadKey = (prefix = ''): string => `${prefix}{market}:summary:head`

/** Key of a chunk of the summary's deflated rows. */
export const summaryChunkKey = (version: string, chunk: number, prefix = ''): string =>
  `${prefix}{market}:summary:${version}:${chunk}`

/** Key of the item ids and the end of each one's row in the text, as alternating 32-bit numbers. */
export const summaryOffsetsKey = (version: string, prefix = ''): string =>
  `${prefix}{market}:summary:${version}:offsets`

/** Key of the lease of the one process that writes. */
export const marketLeaseKey = (prefix = ''): string => `${prefix}{market}:writer`

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

/** Bytes of the columns of a number of rows. */
export const arbitrageBytes = (rows: number): number => rows * BYTES_PER_ROW

/** Columns for a number of rows, in one stretch of memory. */
export function arbitrageColumns(rows: number, buffer = new ArrayBuffer(arbitrageBytes(rows))): ArbitrageColumns {
  if (buffer.byteLength !== arbitrageBytes(rows))
    throw new Error('arbitrage columns are not as long as their head says')
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

/** The bytes of columns that {@link arbitrageColumns} made. */
export const columnBytes = (columns: ArbitrageColumns): ArrayBuffer => columns.buyMicroUsd.buffer as ArrayBuffer
