/** The messages between pages and the worker. */
import type { Tier } from '../values/tiers.ts'
import type { Quote } from './ask-table.ts'
import type { BoardQuery, BoardRow } from './board-store.ts'

/** The part of the board that a page shows. */
export interface BoardView {
  query: BoardQuery
  from: number
  count: number
}

export type ToWorker =
  /** The first message; without a key the page asks for that of another tab. `lock` is held by the page while it lives; null where the worker ends with it. */
  | { type: 'hello'; baseUrl: string; key: string | null; lock: string | null }
  | { type: 'view'; view: BoardView | null }
  | { type: 'item'; itemId: number | null }
  /** Reads again what is no feed. */
  | { type: 'refresh' }
  /** Ends the key in all tabs. */
  | { type: 'forget' }

export type FeedStatus =
  | 'loading'
  /** By the feed. */
  | 'live'
  /** The feed was cut and connects again. */
  | 'interrupted'
  /** The tier has no feed: a snapshot, or one page. */
  | 'snapshot'
  | 'refused'
  | 'failed'

export interface MarketState {
  status: FeedStatus
  tier: Tier | null
  /** Sentence of the platform, where something failed. */
  problem: string | null
  /** Since when the rows are as they are, where no feed changes them. */
  readAt: number | null
  items: number
  /** Of the last second. */
  changesPerSecond: number
}

export interface ProviderTerms {
  name: string
  hasBids: boolean
  /** Shares of the price: on top of an ask that is bought, and off a bid that is sold to. */
  buyFee: number
  sellFee: number
}

/** Changes seldom: sent apart, so that what is made of it stays. */
export interface MarketNames {
  kinds: readonly string[]
  /** By the key of each. */
  providers: Readonly<Record<string, ProviderTerms>>
}

export const NO_NAMES: MarketNames = { kinds: [], providers: {} }

export const STARTING: MarketState = {
  status: 'loading',
  tier: null,
  problem: null,
  readAt: null,
  items: 0,
  changesPerSecond: 0,
}

export interface Usage {
  tier: Tier
  limit: number
  remaining: number
  /** Milliseconds since the epoch. */
  resetAt: number
}

export type FromWorker =
  | { type: 'key'; key: string | null }
  | { type: 'state'; state: MarketState }
  | { type: 'names'; names: MarketNames }
  | { type: 'usage'; usage: Usage }
  | { type: 'window'; total: number; items: number; from: number; rows: readonly BoardRow[] }
  | { type: 'asks'; itemId: number; asks: readonly Quote[] }
