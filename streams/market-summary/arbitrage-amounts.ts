/**
 * The amounts of a pair of an ask and a bid, and how old its legs may be.
 *
 * Amounts that are shown are exact: computed in whole numbers and rounded once, halves up.
 */
import { HOUR_MS, type Instant } from '#schemas/values/instant.ts'
import type { MicroUsd } from '#schemas/values/money.ts'
import type { ArbitrageColumns } from './table.ts'

/** How old the older leg of a row may be (DECISIONS.md, "Arbitrage"). */
export const ARBITRAGE_AGE_LIMIT_MS = HOUR_MS

/** How old a computed snapshot may be when it is answered from (DECISIONS.md, "Arbitrage"). */
export const ARBITRAGE_SNAPSHOT_LIMIT_MS = 30_000

/** Rows of a snapshot; beyond, those with the least net profit are left out. */
export const ARBITRAGE_ROWS_MAX = 2_000_000

/** Fees of a trade: shares of the price in hundredths of a percent, so that those of any registry are whole numbers. */
export interface ArbitrageFees {
  /** On top of what is paid; what a trading platform takes off the other side's goods. */
  buy: number
  /** Taken off what is got. */
  sell: number
}

const PER_UNIT = 10_000

/** The fees of a provider (DECISIONS.md, "Arbitrage"): `insta_sell_fee`, else `sell_fee`; `trading_spread_fee` when buying. */
export function arbitrageFees(fees: {
  sell_fee: number | null
  insta_sell_fee: number | null
  trading_spread_fee: number | null
}): ArbitrageFees {
  const scaled = (share: number | null): number => Math.round((share ?? 0) * PER_UNIT * 100) / 100
  return { buy: scaled(fees.trading_spread_fee), sell: scaled(fees.insta_sell_fee ?? fees.sell_fee) }
}

/**
 * The rest of a sale after the purchase and all fees, in 1/10,000 micro-dollars.
 *
 * Exact for prices below 400,000 dollars where fees are whole hundredths of a percent.
 */
export const netProfit = (buy: MicroUsd, sell: MicroUsd, buyFee: number, sellFee: number): number =>
  sell * (PER_UNIT - sellFee) - buy * (PER_UNIT + buyFee)

export function arbitrageAmounts(buy: MicroUsd, sell: MicroUsd, fees: ArbitrageFees) {
  // Fees may carry two more digits.
  const [buyFee, sellFee] = [BigInt(Math.round(fees.buy * 100)), BigInt(Math.round(fees.sell * 100))]
  const [paid, got] = [BigInt(buy), BigInt(sell)]
  const scaledFees = paid * buyFee + got * sellFee
  const scale = BigInt(PER_UNIT) * 100n
  const cent = 10_000n * scale
  const rounded = (numerator: bigint, denominator: bigint): number =>
    Number((2n * numerator + denominator) / (2n * denominator))
  return {
    estimatedFeesCents: rounded(scaledFees, cent),
    netProfitCents: rounded((got - paid) * scale - scaledFees, cent),
    grossSpreadPct: rounded((got - paid) * 1_000_000n, paid) / 10_000,
  }
}

/** The last moment at which the older leg of a row of the snapshot of `asOf` is within the age limit. */
export function freshUntil(columns: ArbitrageColumns, row: number, asOf: Instant): Instant {
  const older = Math.max(columns.buyAgeMs[row] as number, columns.sellAgeMs[row] as number)
  return asOf + ARBITRAGE_AGE_LIMIT_MS - older
}
