/**
 * The ledger of a portfolio: buys and sells, each of which may be changed or removed later.
 *
 * Reads and writes portfolio_transactions. Invariant: before a write commits, the holdings of every item that it touches
 * have been checked on all days (ledger.ts) under the lock of the portfolio, so that no order of concurrent writers
 * can leave a day on which more was sold than was held.
 */
import type { Database, Query } from '#infra/postgres/pool.ts'
import { type EntrySource, followLedger } from './entries.ts'
import {
  applyMovement,
  type DayNets,
  type Direction,
  firstShortfall,
  type Shortfall,
  signedQuantity,
} from './ledger.ts'
import type { Trade } from './performance.ts'
import { Refusal } from './refusal.ts'
import { type PortfolioScope, type PortfolioStore, writePortfolio } from './store.ts'

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

/** What of a transaction may be changed. */
export type TransactionPatch = Partial<Omit<TransactionInput, 'item_id'>>

type TransactionRow = TransactionInput & { id: string; sequence: string; created_at: Date; updated_at: Date }

const COLUMNS = `id, sequence, item_id, type, quantity, price::float8 AS price, currency, date::text AS date,
  fee_amount::float8 AS fee_amount, fee_percentage, marketplace, note, created_at, updated_at`

function recordOf({ sequence: _, created_at, updated_at, ...row }: TransactionRow): TransactionRecord {
  return { ...row, created_at: created_at.toISOString(), updated_at: updated_at.toISOString() }
}

/** Records a transaction. */
export function addTransaction(
  store: PortfolioStore,
  scope: PortfolioScope,
  input: TransactionInput,
): Promise<TransactionRecord> {
  return writePortfolio(store, scope, async (query, portfolio) => {
    if (input.type === 'sell') await demandHoldings(query, scope, input.item_id, nets => applyMovement(nets, input))
    await insertTransactions(query, scope, [input])
    portfolio.transactionCount += 1
    await follow(query, scope, input.item_id, signedQuantity(input))
    const [row] = await query<TransactionRow>(
      `SELECT ${COLUMNS} FROM portfolio_transactions WHERE portfolio_id = $1 AND sequence = currval(
        pg_get_serial_sequence('portfolio_transactions', 'sequence'))`,
      [scope.portfolioId],
    )
    return recordOf(row as TransactionRow)
  })
}

/** Changes a transaction; what the patch leaves out stays. */
export function changeTransaction(
  store: PortfolioStore,
  scope: PortfolioScope,
  transactionId: string,
  patch: TransactionPatch,
): Promise<TransactionRecord> {
  return writePortfolio(store, scope, async query => {
    const before = await findTransaction(query, scope, transactionId)
    const after = { ...before, ...patch }
    const gained = signedQuantity(after) - signedQuantity(before)
    const isMoved = gained !== 0 || after.date !== before.date || after.type !== before.type
    if (isMoved) {
      await demandHoldings(query, scope, before.item_id, nets => {
        applyMovement(nets, before, -1)
        applyMovement(nets, after)
      })
    }
    const [row] = await query<TransactionRow>(
      `UPDATE portfolio_transactions SET type = $3, quantity = $4, price = $5, currency = $6, date = $7, fee_amount = $8,
        fee_percentage = $9, marketplace = $10, note = $11, updated_at = $12
      WHERE portfolio_id = $1 AND id = $2 RETURNING ${COLUMNS}`,
      [
        ...[scope.portfolioId, transactionId, after.type, after.quantity, after.price, after.currency, after.date],
        ...[after.fee_amount, after.fee_percentage, after.marketplace, after.note, new Date(scope.now)],
      ],
    )
    if (gained !== 0) await follow(query, scope, before.item_id, gained)
    return recordOf(row as TransactionRow)
  })
}

/** Removes a transaction. */
export function removeTransaction(store: PortfolioStore, scope: PortfolioScope, transactionId: string): Promise<void> {
  return writePortfolio(store, scope, async (query, portfolio) => {
    const before = await findTransaction(query, scope, transactionId)
    if (before.type === 'buy') {
      await demandHoldings(query, scope, before.item_id, nets => applyMovement(nets, before, -1))
    }
    await query('DELETE FROM portfolio_transactions WHERE portfolio_id = $1 AND id = $2', [
      scope.portfolioId,
      transactionId,
    ])
    portfolio.transactionCount -= 1
    await follow(query, scope, before.item_id, -signedQuantity(before))
  })
}

/** The cursor of the ledger. */
export interface LedgerPosition {
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
    `SELECT ${COLUMNS} FROM portfolio_transactions t WHERE portfolio_id = $1
      ${page.after ? `AND (t.date, t.sequence) ${beyond} ($3::date, $4::bigint)` : ''}
    ORDER BY t.date ${direction}, t.sequence ${direction} LIMIT $2`,
    [portfolioId, page.limit, ...(page.after ? [page.after.date, page.after.sequence] : [])],
  )
  const last = rows.at(-1)
  const next = last && rows.length === page.limit ? { date: last.date, sequence: last.sequence } : undefined
  return { records: rows.map(recordOf), next }
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

/** Writes transactions in the order given; called inside a write, after the ledger's rules have been checked. */
export async function insertTransactions(
  query: Query,
  { portfolioId, now }: Pick<PortfolioScope, 'portfolioId' | 'now'>,
  inputs: readonly TransactionInput[],
): Promise<void> {
  const column = <K extends keyof TransactionInput>(name: K) => inputs.map(input => input[name])
  await query(
    `INSERT INTO portfolio_transactions (portfolio_id, created_at, updated_at, item_id, type, quantity, price, currency,
      date, fee_amount, fee_percentage, marketplace, note)
    SELECT $1, $2, $2, item_id, type, quantity, price, currency, date, fee_amount, fee_percentage, marketplace, note
    FROM unnest($3::int[], $4::text[], $5::int[], $6::bigint[], $7::text[], $8::date[], $9::bigint[], $10::float8[],
      $11::text[], $12::text[]) WITH ORDINALITY AS t (item_id, type, quantity, price, currency, date, fee_amount,
      fee_percentage, marketplace, note, place) ORDER BY place`,
    [
      ...[portfolioId, new Date(now), column('item_id'), column('type'), column('quantity'), column('price')],
      ...[column('currency'), column('date'), column('fee_amount'), column('fee_percentage')],
      ...[column('marketplace'), column('note')],
    ],
  )
}

async function findTransaction(
  query: Query,
  { portfolioId }: PortfolioScope,
  transactionId: string,
): Promise<TransactionRow> {
  const [row] = await query<TransactionRow>(
    `SELECT ${COLUMNS} FROM portfolio_transactions WHERE portfolio_id = $1 AND id = $2`,
    [portfolioId, transactionId],
  )
  if (!row) throw new Refusal('TRANSACTION_NOT_FOUND', 'This portfolio has no transaction with this id.')
  return row
}

/** Refuses a change after which a day would end below zero. */
async function demandHoldings(
  query: Query,
  { portfolioId }: PortfolioScope,
  itemId: number,
  change: (nets: DayNets) => void,
): Promise<void> {
  const nets = (await readDayNets(query, portfolioId, [itemId])).get(itemId) as DayNets
  change(nets)
  const shortfall = firstShortfall(nets)
  if (shortfall) throw new Refusal('INSUFFICIENT_HOLDINGS', describeShortfall(shortfall))
}

/** Describes what is missing. */
export const describeShortfall = ({ date, missing }: Shortfall): string =>
  `On ${date} the ledger would have sold ${missing} more than it held; record what was bought by then first.`

async function follow(query: Query, scope: PortfolioScope, itemId: number, gained: number): Promise<void> {
  const source: EntrySource = 'manual'
  await followLedger(query, scope, { itemIds: [itemId], grown: gained > 0 ? [itemId] : [], source })
}
