/**
 * The ledger of a portfolio as it is read, and what it has earned.
 *
 * Reads portfolio_transactions, writes nothing. Invariant: what is folded is one state of the ledger, read in slices within one
 * transaction, and no slice keeps others waiting.
 */
import type { z } from 'zod'
import type { Database, Query } from '#infra/postgres/pool.ts'
import { nextTurn } from '#infra/runtime/turns.ts'
import type { transactionReply } from '#schemas/api/transactions.ts'
import { type ItemPerformance, openPerformanceFold, type RateOn, type Trade } from './performance.ts'
import type { DayNets, Direction } from './rules.ts'

export type { ItemPerformance, RateOn } from './performance.ts'

/** A stored transaction, without what the catalog knows of its item. */
export type TransactionRecord = Omit<z.infer<typeof transactionReply>, 'market_hash_name' | 'phase'>

export type TransactionInput = Omit<TransactionRecord, 'id' | 'created_at' | 'updated_at'>

export const TRANSACTION_COLUMNS = `id, item_id, type, quantity, price::float8 AS price, currency, date::text AS date,
  fee_amount::float8 AS fee_amount, fee_percentage, marketplace, note, created_at, updated_at`

interface LedgerPosition {
  date: string
  type: Direction
  sequence: string
}

/** In the order of buys those of a day come before its sells, so that the ledger may be imported in parts. */
const ORDERS = {
  newest: { columns: ['date', 'sequence'], direction: 'DESC', beyond: '<' },
  oldest: { columns: ['date', 'sequence'], direction: 'ASC', beyond: '>' },
  buys: { columns: ['date', 'type', 'sequence'], direction: 'ASC', beyond: '>' },
} as const
const TYPES = { date: 'date', type: 'text', sequence: 'bigint' }

const UNITS = `sum(CASE type WHEN 'buy' THEN quantity ELSE -quantity END)`

/** Which of a ledger's transactions are read, and in which order. */
export interface LedgerScope {
  portfolioId: string
  order: keyof typeof ORDERS
  after?: LedgerPosition | undefined
}

/** A page of the ledger; ends where no `next` comes along. */
export async function readLedger(
  database: Database,
  { portfolioId, order, after, limit }: LedgerScope & { limit: number },
): Promise<{ records: TransactionRecord[]; next: LedgerPosition | undefined }> {
  const { columns, direction, beyond } = ORDERS[order]
  const position = columns.map((column, i) => `$${i + 3}::${TYPES[column]}`)
  const rows = await database.rows<TransactionRecord & { sequence: string }>(
    `SELECT ${TRANSACTION_COLUMNS}, sequence FROM portfolio_transactions t WHERE portfolio_id = $1
      ${after ? `AND (${columns.map(column => `t.${column}`)}) ${beyond} (${position})` : ''}
    ORDER BY ${columns.map(column => `t.${column} ${direction}`)} LIMIT $2`,
    [portfolioId, limit, ...(after ? columns.map(column => after[column]) : [])],
  )
  const records = rows.map(({ sequence: _, ...record }) => record)
  return { records, next: rows.length === limit ? rows.at(-1) : undefined }
}

/** The position behind so many transactions, one at least, in the order of buys. */
export async function readLedgerPosition(
  database: Database,
  portfolioId: string,
  count: number,
): Promise<LedgerPosition | undefined> {
  const [position] = await database.rows<LedgerPosition>(
    `SELECT date::text AS date, type, sequence FROM portfolio_transactions t WHERE portfolio_id = $1
    ORDER BY t.date, t.type, t.sequence OFFSET $2 LIMIT 1`,
    [portfolioId, count - 1],
  )
  return position
}

/**
 * Bytes that the numbers and texts of a ledger take in a file at most, by item. Of a note of more than a thousand bytes, and a thousand
 * characters at most, the rest is characters of several bytes: what may be doubled quotes follows from its length, and it is not read.
 */
export const readLedgerBytes = (
  database: Database,
  portfolioId: string,
): Promise<{ item_id: number; rows: number; bytes: number }[]> =>
  database.rows(
    `SELECT item_id, count(*)::float8 AS rows, sum(octet_length(concat(item_id, quantity, price, currency, fee_amount, fee_percentage,
      replace(marketplace, '"', '""'))) + CASE WHEN octet_length(note) > 1000 THEN 1334 + octet_length(note) * 2 / 3
      ELSE octet_length(replace(coalesce(note, ''), '"', '""')) END)::float8 AS bytes
    FROM portfolio_transactions WHERE portfolio_id = $1 GROUP BY item_id`,
    [portfolioId],
  )

export type LedgerSpan = Awaited<ReturnType<typeof readLedgerSpan>>

/** How far a ledger reaches: `firstDay`, since 1970, is undefined for an empty one. */
export async function readLedgerSpan(database: Database, portfolioId: string) {
  const [span] = await database.rows<{ firstDay: number | null; items: number }>(
    `SELECT min(date) - '1970-01-01'::date AS "firstDay", count(DISTINCT item_id)::int AS items
    FROM portfolio_transactions WHERE portfolio_id = $1`,
    [portfolioId],
  )
  return { firstDay: span?.firstDay ?? undefined, items: span?.items ?? 0 }
}

/**
 * Units that each item gained or lost on each day (a number of days since 1970) up to the last, by item and day; those of all days
 * before the first are those of the day before it. Items that are not held within are left out.
 */
export function readDayMovements(
  database: Database,
  portfolioId: string,
  { firstDay, lastDay }: { firstDay: number; lastDay: number },
): Promise<{ item_id: number; day: number; units: number }[]> {
  return database.rows(
    `SELECT item_id, greatest(date - '1970-01-01'::date, $2::int - 1) AS day,
      ${UNITS}::float8 AS units
    FROM portfolio_transactions WHERE portfolio_id = $1 AND date <= '1970-01-01'::date + $3::int
    GROUP BY item_id, day
    HAVING max(date) >= '1970-01-01'::date + $2::int OR ${UNITS} <> 0
    ORDER BY item_id, day`,
    [portfolioId, firstDay, lastDay],
  )
}

export type LedgerCurrencies = readonly { currency: string; first: string }[]

/** Trades of one read: about three milliseconds of work. */
const SLICE_TRADES = 500
const ONE_STATE = 'SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY'

/** Computes what each item has earned, by ascending id; `ratesOf` reads the rates that the ledger needs. */
export function readPerformance(
  database: Database,
  { portfolioId, currency }: { portfolioId: string; currency: string },
  ratesOf: (currencies: LedgerCurrencies) => Promise<RateOn>,
): Promise<readonly ItemPerformance[]> {
  return database.transaction(async query => {
    await query(ONE_STATE)
    const currencies = await query<LedgerCurrencies[number]>(
      'SELECT currency, min(date)::text AS first FROM portfolio_transactions WHERE portfolio_id = $1 GROUP BY currency',
      [portfolioId],
    )
    const fold = openPerformanceFold(currency, await ratesOf(currencies))
    await query(
      `DECLARE trades NO SCROLL CURSOR FOR SELECT item_id, type, quantity, price::float8 AS price, currency, date::text AS date,
        fee_amount::float8 AS fee_amount, fee_percentage
      FROM portfolio_transactions t WHERE portfolio_id = $1 ORDER BY item_id, t.date, type = 'sell', sequence`,
      [portfolioId],
    )
    for (;;) {
      const trades = await query<Trade>(`FETCH ${SLICE_TRADES} FROM trades`)
      for (const _ of fold.add(trades)) await nextTurn()
      if (trades.length < SLICE_TRADES) return fold.items
    }
  })
}

/** The current days of items; called inside a write. */
export async function readDayNets(
  query: Query,
  portfolioId: string,
  itemIds: readonly number[],
): Promise<Map<number, DayNets>> {
  const rows = await query<{ item_id: number; date: string; units: number }>(
    `SELECT item_id, date::text AS date, ${UNITS}::float8 AS units
    FROM portfolio_transactions WHERE portfolio_id = $1 AND item_id = ANY($2::int[]) GROUP BY item_id, date`,
    [portfolioId, itemIds],
  )
  const nets = new Map<number, DayNets>(itemIds.map(id => [id, new Map()]))
  for (const { item_id, date, units } of rows) nets.get(item_id)?.set(date, units)
  return nets
}
