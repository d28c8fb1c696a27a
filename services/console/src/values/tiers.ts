/** The limits of a tier, of the operations that the pages use; a test compares it with the API's description. */

export type Tier = 'free' | 'starter' | 'pro' | 'quant'

const ALL: readonly Tier[] = ['free', 'starter', 'pro', 'quant']
const STARTER = ALL.slice(1)
const PRO = ALL.slice(2)
const QUANT = ALL.slice(3)

export const TIERS_OF = {
  listPrices: ALL,
  listItems: ALL,
  listCandles: ALL,
  listProviders: ALL,
  listFxRates: ALL,
  listBids: STARTER,
  batchGetPrices: STARTER,
  streamPrices: PRO,
  listSales: PRO,
  listMovers: PRO,
  listMarketItems: PRO,
  getMarketItem: PRO,
  listMarketIndexes: QUANT,
  listArbitrage: QUANT,
  getHistoryChart: QUANT,
  streamPriceChanges: QUANT,
} as const satisfies Record<string, readonly Tier[]>

export type TieredOperation = keyof typeof TIERS_OF

export const permits = (tier: Tier, operation: TieredOperation): boolean =>
  (TIERS_OF[operation] as readonly Tier[]).includes(tier)

/** The least tier that may: the pages say it where a tier may not. */
export const leastTier = (operation: TieredOperation): Tier => TIERS_OF[operation][0] as Tier

/** Candles shorter than a day. */
export const hasShortCandles = (tier: Tier): boolean => tier === 'pro' || tier === 'quant'
