/**
 * The ledger of a portfolio as it is read, and what it has earned: first in, first out.
 *
 * Reads portfolio_transactions, writes nothing. All amounts of a performance are whole hundredths of one currency; each
 * transaction is converted once, as a whole, at the rates of its own day. A unit's basis is its price and its share of the
 * buy's fees; a sell takes the oldest units first, and the basis of a part of a lot is rounded so that the parts always add up
 * to the lot. Invariant: realised + unrealised profit = sold + market value - bought - fees, to the last hundredth.
 */
import type { Database, Query } from '#infra/postgres/pool.ts'
import { crossMinor, parseRate, type Rate, shareOf } from '#schemas/values/money.ts'
import type { DayNets, Direction } from './rules.ts'

/** A transaction, as far as it is about money. */
export interface Trade {
  itemId: number
  type: Direction
  quantity: number
  /** Hundredths of `currency`, of one unit. */
  price: number
  currency: string
  /** YYYY-MM-DD. */
  date: string
  feeAmount: number | null
  /** Percent of price x quantity; comes on top of `feeAmount`. */
  feePercentage: number | null
}

/** What the transactions of an item have come to. */
export interface ItemPerformance {
  itemId: number
  /** Units that are still there. */
  quantity: number
  /** Price x quantity of all buys, without fees. */
  bought: bigint
  /** Price x quantity of all sells, without fees. */
  sold: bigint
  /** Fees of buys and sells. */
  fees: bigint
  /** What the units that are still there have cost, fees included. */
  costBasis: bigint
  /** Of the units that were sold: proceeds less fees and basis. */
  realisedProfit: bigint
}

/** The rate of a currency on a day. */
export type RateOn = (currency: string, date: string) => Rate

/** Units bought together. */
interface Lot {
  quantity: bigint
  taken: bigint
  basis: bigint
}

/** The fee of a transaction in hundredths of its own currency: the amount, and the percentage of its total. */
function feeOf({ price, quantity, feeAmount, feePercentage }: Omit<Trade, 'itemId' | 'type' | 'date'>): bigint {
  const percent = feePercentage === null ? undefined : parseRate(String(feePercentage))
  const total = BigInt(price) * BigInt(quantity)
  const share = percent ? shareOf(total, percent.numerator, 100n * percent.denominator) : 0n
  return BigInt(feeAmount ?? 0) + share
}

/** Computes what each item has earned, by ascending id; `trades` are in the order in which they were entered. */
export function performanceOf(trades: readonly Trade[], currency: string, rateOn: RateOn): ItemPerformance[] {
  return [...Map.groupBy(trades, trade => trade.itemId)]
    .sort(([a], [b]) => a - b)
    .map(([itemId, ofItem]) => performanceOfItem(itemId, ofItem, currency, rateOn))
}

function performanceOfItem(
  itemId: number,
  trades: readonly Trade[],
  currency: string,
  rateOn: RateOn,
): ItemPerformance {
  const lots: Lot[] = []
  let oldest = 0
  const sum = { bought: 0n, sold: 0n, fees: 0n, realisedProfit: 0n }
  for (const trade of inLedgerOrder(trades)) {
    const into = (amount: bigint): bigint =>
      trade.currency === currency
        ? amount
        : crossMinor(amount, rateOn(trade.currency, trade.date), rateOn(currency, trade.date))
    const total = into(BigInt(trade.price) * BigInt(trade.quantity))
    const fee = into(feeOf(trade))
    sum.fees += fee
    if (trade.type === 'buy') {
      sum.bought += total
      lots.push({ quantity: BigInt(trade.quantity), taken: 0n, basis: total + fee })
      continue
    }
    sum.sold += total
    sum.realisedProfit += total - fee
    let wanted = BigInt(trade.quantity)
    while (wanted > 0n) {
      const lot = lots[oldest]
      if (!lot) throw new Error(`the ledger of item ${itemId} sells more than it holds on ${trade.date}`)
      const left = lot.quantity - lot.taken
      const take = wanted < left ? wanted : left
      sum.realisedProfit -= takeFrom(lot, take)
      wanted -= take
      if (lot.taken === lot.quantity) oldest += 1
    }
  }
  const open = lots.slice(oldest)
  return {
    itemId,
    ...sum,
    quantity: Number(open.reduce((units, lot) => units + lot.quantity - lot.taken, 0n)),
    costBasis: open.reduce((basis, lot) => basis + lot.basis - basisOf(lot, lot.taken), 0n),
  }
}

/** Buys of a day come before its sells, as in the ledger's rules; among themselves they stay as entered. */
function inLedgerOrder(trades: readonly Trade[]): Trade[] {
  const rank = ({ type }: Trade): number => (type === 'buy' ? 0 : 1)
  return [...trades].sort((a, b) => (a.date === b.date ? rank(a) - rank(b) : a.date < b.date ? -1 : 1))
}

const basisOf = (lot: Lot, units: bigint): bigint => shareOf(lot.basis, units, lot.quantity)

/** Takes units of a lot and returns their basis. */
function takeFrom(lot: Lot, units: bigint): bigint {
  const before = basisOf(lot, lot.taken)
  lot.taken += units
  return basisOf(lot, lot.taken) - before
}

/** The members of a transaction, without what the catalog knows of its item. */
export interface TransactionInput {
  item_id: number
  type: Direction
  quantity: number
  /** Hundredths of `currency`, of one unit. */
  price: number
  currency: string
  /** YYYY-MM-DD. */
  date: string
  fee_amount: number | null
  fee_percentage: number | null
  marketplace: string | null
  note: string | null
}

/** A stored transaction. */
export interface TransactionRecord extends TransactionInput {
  id: string
  created_at: string
  updated_at: string
}

/** A row of {@link TRANSACTION_COLUMNS}. */
export type TransactionRow = TransactionInput & { id: string; sequence: string; created_at: Date; updated_at: Date }

/** The columns of a transaction. */
export const TRANSACTION_COLUMNS = `id, sequence, item_id, type, quantity, price::float8 AS price, currency, date::text AS date,
  fee_amount::float8 AS fee_amount, fee_percentage, marketplace, note, created_at, updated_at`

/** The transaction of a row. */
export function transactionOf({ sequence: _, created_at, updated_at, ...row }: TransactionRow): TransactionRecord {
  return { ...row, created_at: created_at.toISOString(), updated_at: updated_at.toISOString() }
}

/** The cursor of the ledger. */
interface LedgerPosition {
  date: string
  sequence: string
}

/** A page of the ledger, newest first, or oldest first for an export; ends where no `next` comes along. */
export async function readLedger(
  database: Database,
  portfolioId: string,
  page: { after?: LedgerPosition | undefined; limit: number; order: 'newest' | 'oldest' },
): Promise<{ records: TransactionRecord[]; next: LedgerPosition | undefined }> {
  const [beyond, direction] = page.order === 'newest' ? ['<', 'DESC'] : ['>', 'ASC']
  const rows = await database.rows<TransactionRow>(
    `SELECT ${TRANSACTION_COLUMNS} FROM portfolio_transactions t WHERE portfolio_id = $1
      ${page.after ? `AND (t.date, t.sequence) ${beyond} ($3::date, $4::bigint)` : ''}
    ORDER BY t.date ${direction}, t.sequence ${direction} LIMIT $2`,
    [portfolioId, page.limit, ...(page.after ? [page.after.date, page.after.sequence] : [])],
  )
  const last = rows.at(-1)
  const next = last && rows.length === page.limit ? { date: last.date, sequence: last.sequence } : undefined
  return { records: rows.map(transactionOf), next }
}

/** Units that each item gained or lost on each day (a number of days since 1970), by item and day. */
export function readDayMovements(
  database: Database,
  portfolioId: string,
): Promise<{ item_id: number; day: number; units: number }[]> {
  return database.rows(
    `SELECT item_id, date - '1970-01-01'::date AS day,
      sum(CASE type WHEN 'buy' THEN quantity ELSE -quantity END)::float8 AS units
    FROM portfolio_transactions WHERE portfolio_id = $1 GROUP BY item_id, date ORDER BY item_id, date`,
    [portfolioId],
  )
}

/** All transactions, as far as they are about money, in the order in which they were entered. */
export function readTrades(database: Database, portfolioId: string): Promise<Trade[]> {
  return database.rows<Trade>(
    `SELECT item_id AS "itemId", type, quantity, price::float8 AS price, currency, date::text AS date,
      fee_amount::float8 AS "feeAmount", fee_percentage AS "feePercentage"
    FROM portfolio_transactions WHERE portfolio_id = $1 ORDER BY sequence`,
    [portfolioId],
  )
}

/** The current days of items; called inside a write. */
export async function readDayNets(
  query: Query,
  portfolioId: string,
  itemIds: readonly number[],
): Promise<Map<number, DayNets>> {
  const rows = await query<{ item_id: number; date: string; units: number }>(
    `SELECT item_id, date::text AS date, sum(CASE type WHEN 'buy' THEN quantity ELSE -quantity END)::float8 AS units
    FROM portfolio_transactions WHERE portfolio_id = $1 AND item_id = ANY($2::int[]) GROUP BY item_id, date`,
    [portfolioId, itemIds],
  )
  const nets = new Map<number, DayNets>(itemIds.map(id => [id, new Map()]))
  for (const { item_id, date, units } of rows) nets.get(item_id)?.set(date, units)
  return nets
}
