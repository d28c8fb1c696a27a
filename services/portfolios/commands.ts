/**
 * Portfolios themselves, the one way to write into one, and creates that may be repeated.
 *
 * Writes the tables portfolios and idempotency_keys. Invariant: a write holds the lock of its portfolio's row from its first
 * read to its commit, checks the limits when it is done, and ends with a new version; an exception in between leaves the
 * portfolio unchanged. Of two creates with one Idempotency-Key of an account at most one happens - the second waits for the
 * first to commit and is given its answer, which is stored with what it created - and a create that was refused or rolled back
 * leaves its key free. A key counts for a day; another request under it is refused.
 */
import { createHash } from 'node:crypto'
import { HttpError } from '#infra/http/http-error.ts'
import { countRows, type Database, type Query } from '#infra/postgres/pool.ts'
import { openSerialQueues, type SerialQueues } from '#infra/runtime/async/serial-queues.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { lockAccount } from '#services/accounts/commands.ts'
import { PORTFOLIO_COLUMNS, type PortfolioRecord, portfolioNotFound } from './reader.ts'

export interface PortfolioStore {
  database: Database
  queues: SerialQueues
}

interface WriteScope {
  accountId: string
  /** Milliseconds since the epoch. */
  now: number
  idempotencyKey?: IdempotencyKey | undefined
}

export interface PortfolioScope extends WriteScope {
  portfolioId: string
  entriesMax: number
  /** Transactions that the account may have, over all of its portfolios. */
  transactionsMax: number
}

export interface LockedPortfolio {
  readonly id: string
  readonly entryCount: number
  /** A write that adds or removes transactions updates it. */
  transactionCount: number
}

/** Room for any file that the CSV import accepts. */
export const TRANSACTIONS_MAX = 250_000

/** Of one portfolio, running or waiting in this process. */
const WRITES_MAX = 64

/**
 * Opens the write side over a database; one for all writers of a process. The lock of a portfolio's row keeps writers of all processes
 * apart; the queues only keep those that would wait for that lock from holding all connections meanwhile.
 */
export const openPortfolioStore = (database: Database): PortfolioStore => ({
  database,
  queues: openSerialQueues(
    WRITES_MAX,
    () => new HttpError('SERVICE_UNAVAILABLE', 'Too many writes to this portfolio wait already; try again soon.'),
  ),
})

/** Creates an empty portfolio; refused when the account has as many as its tier allows. */
export function createPortfolio(
  { database, queues }: PortfolioStore,
  scope: WriteScope,
  { name, portfoliosMax }: { name: string; portfoliosMax: number },
): Promise<PortfolioRecord> {
  const { accountId, now } = scope
  return queues.add(accountId, () =>
    database.transaction(query =>
      answerOnce(query, scope, async () => {
        // Creates of one account run one at a time, or two of them would both find room for the last portfolio.
        await lockAccount(query, accountId)
        if ((await countRows(query, 'portfolios WHERE account_id = $1', [accountId])) >= portfoliosMax) {
          const detail = `Your tier allows ${portfoliosMax} portfolios; delete one first.`
          throw new HttpError('PORTFOLIO_LIMIT_REACHED', detail)
        }
        const [created] = await query<PortfolioRecord>(
          `INSERT INTO portfolios (account_id, name, created_at, updated_at) VALUES ($1, $2, $3, $3) RETURNING ${PORTFOLIO_COLUMNS}`,
          [accountId, name, new Date(now)],
        )
        return created as PortfolioRecord
      }),
    ),
  )
}

/** Locks all portfolios of an account until the transaction ends: before the account's own row, as their writers do. */
export async function lockPortfolios(query: Query, accountId: string): Promise<void> {
  await query('SELECT id FROM portfolios WHERE account_id = $1 ORDER BY id FOR UPDATE', [accountId])
}

/** Deletes all portfolios of an account within the transaction of `query`, which has locked them. */
export async function removePortfolios(query: Query, accountId: string): Promise<void> {
  await query('DELETE FROM portfolios WHERE account_id = $1', [accountId])
}

export async function deletePortfolio(
  { database, queues }: PortfolioStore,
  accountId: string,
  portfolioId: string,
): Promise<void> {
  const rows = await queues.add(portfolioId, () =>
    database.rows('DELETE FROM portfolios WHERE id = $1 AND account_id = $2 RETURNING id', [portfolioId, accountId]),
  )
  if (rows.length === 0) throw portfolioNotFound()
}

/** Writes into a portfolio. `work` throws a {@link HttpError} for what the rules forbid. */
export function writePortfolio<T>(
  { database, queues }: PortfolioStore,
  scope: PortfolioScope,
  work: (query: Query, portfolio: LockedPortfolio) => Promise<T>,
): Promise<T> {
  const { accountId, portfolioId } = scope
  return queues.add(portfolioId, () =>
    database.transaction(query =>
      answerOnce(query, scope, async () => {
        const [before] = await query<LockedPortfolio>(
          `SELECT id, entry_count AS "entryCount", transaction_count AS "transactionCount" FROM portfolios
           WHERE id = $1 AND account_id = $2 FOR UPDATE`,
          [portfolioId, accountId],
        )
        if (!before) throw portfolioNotFound()
        const portfolio = { ...before }
        const result = await work(query, portfolio)
        await endWrite(query, scope, before, portfolio)
        return result
      }),
    ),
  )
}

/** Counts what the portfolio holds now, checks its limits, and gives it its next version. */
async function endWrite(
  query: Query,
  { accountId, now, entriesMax, transactionsMax }: PortfolioScope,
  before: LockedPortfolio,
  { id, transactionCount }: LockedPortfolio,
): Promise<void> {
  const [after] = await query<{ entries: number }>(
    `UPDATE portfolios SET version = version + 1, updated_at = $2, transaction_count = $3,
      entry_count = (SELECT count(*) FROM portfolio_entries WHERE portfolio_id = $1)
    WHERE id = $1 RETURNING entry_count AS entries`,
    [id, new Date(now), transactionCount],
  )
  const entries = after?.entries ?? 0
  if (entries > entriesMax && entries > before.entryCount) {
    throw new HttpError('PORTFOLIO_ITEM_LIMIT_REACHED', `A portfolio of your tier holds ${entriesMax} items at most.`)
  }
  if (transactionCount > TRANSACTIONS_MAX) {
    throw new HttpError('PORTFOLIO_ITEM_LIMIT_REACHED', `A portfolio holds ${TRANSACTIONS_MAX} transactions at most.`)
  }
  if (transactionCount > before.transactionCount) await requireTransactionQuota(query, accountId, transactionsMax)
}

/** The account's row is locked last, so that of writes into several portfolios each counts what those before it have added. */
async function requireTransactionQuota(query: Query, accountId: string, transactionsMax: number): Promise<void> {
  await lockAccount(query, accountId)
  const [counted] = await query<{ total: number }>(
    'SELECT sum(transaction_count)::float8 AS total FROM portfolios WHERE account_id = $1',
    [accountId],
  )
  if ((counted?.total ?? 0) <= transactionsMax) return
  const detail = `Your tier allows ${transactionsMax} transactions over all portfolios; remove some first.`
  throw new HttpError('PORTFOLIO_ITEM_LIMIT_REACHED', detail)
}

export interface IdempotencyKey {
  key: string
  /** SHA-256 of the operation and its whole input. */
  hash: Buffer
}

const KEY_LIFE_MS = DAY_MS
/** Expired keys that one create deletes: more than it adds, so that they never accumulate. */
const CLEARED = 20

/** Names a request: its operation and everything that decides what it does. */
export function requestHash(operation: string, ...input: (string | Buffer)[]): Buffer {
  const hash = createHash('sha256').update(operation)
  for (const part of input) hash.update(`\0${Buffer.byteLength(part)}\0`).update(part)
  return hash.digest()
}

/** The answer of a create that was done already; undefined when it was not. For creates that first call another service. */
export async function answeredBefore<T>(
  query: Query,
  { accountId, now, idempotencyKey }: WriteScope,
): Promise<T | undefined> {
  if (!idempotencyKey) return undefined
  const { key, hash } = idempotencyKey
  const [first] = await query<{ requestHash: Buffer; answer: string }>(
    `SELECT request_hash AS "requestHash", answer FROM idempotency_keys
    WHERE account_id = $1 AND key = $2 AND created_at > $3 AND answer IS NOT NULL`,
    [accountId, key, new Date(now - KEY_LIFE_MS)],
  )
  if (!first || first.requestHash.equals(hash)) return first && JSON.parse(first.answer)
  const msg = 'This key was used for another request already; send a new one'
  throw new HttpError('VALIDATION_ERROR', [
    { type: 'value_error', loc: ['header', 'Idempotency-Key'], msg, input: key, ctx: {} },
  ])
}

/** Runs a create, or answers what it answered before. What it answers must be plain JSON. */
async function answerOnce<T>(query: Query, scope: WriteScope, create: () => Promise<T>): Promise<T> {
  const { accountId, now, idempotencyKey } = scope
  if (!idempotencyKey) return create()
  const { key, hash } = idempotencyKey
  const expired = new Date(now - KEY_LIFE_MS)
  await query(
    `DELETE FROM idempotency_keys WHERE ctid IN (
      SELECT ctid FROM idempotency_keys WHERE created_at <= $1 LIMIT $2 FOR UPDATE SKIP LOCKED)`,
    [expired, CLEARED],
  )
  const claimed = await query(
    `INSERT INTO idempotency_keys AS stored (account_id, key, request_hash, created_at) VALUES ($1, $2, $3, $4)
    ON CONFLICT (account_id, key) DO UPDATE SET request_hash = EXCLUDED.request_hash, answer = NULL, created_at = $4
      WHERE stored.created_at <= $5
    RETURNING key`,
    [accountId, key, hash, new Date(now), expired],
  )
  if (claimed.length === 0) {
    const answer = await answeredBefore<T>(query, scope)
    if (answer !== undefined) return answer
    throw new HttpError('SERVICE_UNAVAILABLE', 'The first request with this key is just ending; try again.')
  }
  const result = await create()
  await query('UPDATE idempotency_keys SET answer = $3 WHERE account_id = $1 AND key = $2', [
    ...[accountId, key, JSON.stringify(result)],
  ])
  return result
}
