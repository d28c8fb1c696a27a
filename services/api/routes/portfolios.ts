/** Rules: DECISIONS.md, "Portfolios and inventories". Reads and writes through services/portfolios. */
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { stream } from '#infra/http/reply.ts'
import type { Database } from '#infra/postgres/pool.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { nextTurn } from '#infra/runtime/turns.ts'
import { json, type Reply } from '#schemas/api/operation.ts'
import {
  entriesReply,
  entryBody,
  entryParams,
  entryReply,
  portfolioBody,
  portfolioReply,
  portfoliosReply,
} from '#schemas/api/portfolios.ts'
import {
  transactionBody,
  transactionParams,
  transactionPatch,
  transactionReply,
  transactionsReply,
} from '#schemas/api/transactions.ts'
import { formatDay, HOUR_MS } from '#schemas/values/instant.ts'
import { createPortfolio, deletePortfolio } from '#services/portfolios/commands.ts'
import { addEntry, removeEntry } from '#services/portfolios/entries/commands.ts'
import {
  addTransaction,
  changeTransaction,
  removeTransaction,
  type TransactionPatch,
} from '#services/portfolios/ledger/commands.ts'
import { type LedgerScope, readLedger, type TransactionRecord } from '#services/portfolios/ledger/reader.ts'
import { type EntryRecord, findPortfolio, listEntries, listPortfolios } from '#services/portfolios/reader.ts'
import type { ApiContext } from '../context.ts'
import { idempotencyKeyOf, itemOfBody, MISSING, namedItem, OPEN, OWN, writeScope } from '../portfolio-access.ts'
import { EXPENSIVE_IF_LARGE } from '../work-limits.ts'

/** The day has begun somewhere on earth up to 14 hours before it does in UTC. */
const EARLIEST_ZONE_MS = 14 * HOUR_MS
/** Transactions or entries that are read or written at once: a few milliseconds. */
const SLICE = 250

const NOTHING: Reply<void> = { status: 204, description: 'It is gone.' }

/** The last day that a transaction may have at a moment. */
export const latestDay = (now: number): string => formatDay(now + EARLIEST_ZONE_MS)

export const portfolioRoutes = (api: ApiContext): Route[] => [
  ...wholePortfolios(api),
  ...entryRoutes(api),
  ...transactionRoutes(api),
  ...transactionChanges(api),
]

const wholePortfolios = ({ store, tiers, now }: ApiContext): Route[] => [
  defineRoute({
    ...OPEN,
    id: 'createPortfolio',
    method: 'post',
    path: '/portfolio',
    isCreate: true,
    summary: 'Create an empty portfolio',
    description: 'An account may have 20 portfolios on free and starter, 50 on pro, 1000 on quant.',
    body: portfolioBody,
    reply: json('PortfolioReply', portfolioReply, 'The new portfolio.', 201),
    errors: ['PORTFOLIO_LIMIT_REACHED'],
    handle({ body: { name }, credential: { accountId, tier }, request }) {
      const idempotencyKey = idempotencyKeyOf(request, 'createPortfolio', name)
      const scope = { accountId, now: now(), idempotencyKey }
      return createPortfolio(store, scope, { name, portfoliosMax: tiers[tier].portfolios })
    },
  }),
  defineRoute({
    ...OPEN,
    id: 'listPortfolios',
    method: 'get',
    path: '/portfolio',
    summary: 'Portfolios of the account',
    description: 'Oldest first.',
    reply: json('PortfoliosReply', portfoliosReply, 'All portfolios.'),
    handle: async ({ credential }) => ({ data: await listPortfolios(store, credential.accountId) }),
  }),
  defineRoute({
    ...OWN,
    id: 'deletePortfolio',
    method: 'delete',
    path: '/portfolio/:id',
    summary: 'Delete a portfolio with all that it holds',
    description: 'Cannot be undone.',
    reply: NOTHING,
    errors: MISSING,
    handle: ({ params: { id }, credential }) => deletePortfolio(store, credential.accountId, id),
  }),
]

/** A record of an item with its name, as answers show it. */
export const withItem = <R extends { id: string; item_id: number }>(
  catalog: CatalogReader,
  { item_id, id, ...record }: R,
) => ({
  id,
  ...namedItem(catalog, item_id),
  ...record,
})

function entryRoutes(api: ApiContext): Route[] {
  const { store, catalog, budget, reads } = api
  return [
    defineRoute({
      ...OWN,
      id: 'listPortfolioEntries',
      method: 'get',
      path: '/portfolio/:id/items',
      summary: 'Entries of a portfolio',
      description: `In the order in which they came. ${EXPENSIVE_IF_LARGE}`,
      reply: json('EntriesReply', entriesReply, 'All entries.'),
      errors: MISSING,
      async handle({ params: { id }, credential, response }) {
        const { item_count } = await findPortfolio(store, credential.accountId, id)
        await budget.charge(credential, item_count)
        return stream(
          response,
          jsonList(entrySlices(reads, id), one => withItem(catalog, one)),
        )
      },
    }),
    defineRoute({
      ...OWN,
      id: 'createPortfolioEntry',
      method: 'post',
      path: '/portfolio/:id/items',
      isCreate: true,
      summary: 'Add units of an item by hand',
      description: 'One of `item_id` and `market_hash_name` is required. The ledger is not touched.',
      body: entryBody,
      reply: json('EntryReply', entryReply, 'The new entry.', 201),
      errors: [...MISSING, 'ITEM_NOT_FOUND', 'PORTFOLIO_ITEM_LIMIT_REACHED'],
      async handle({ params: { id }, body, credential, request }) {
        await findPortfolio(store, credential.accountId, id)
        const { item_id } = itemOfBody(catalog, body)
        const idempotencyKey = idempotencyKeyOf(request, 'addEntry', id, JSON.stringify(body))
        const scope = writeScope(api, credential, id, idempotencyKey)
        const added = await addEntry(store, scope, { item_id, quantity: body.quantity, source: 'manual' })
        return withItem(catalog, added)
      },
    }),
    defineRoute({
      ...OPEN,
      id: 'deletePortfolioEntry',
      method: 'delete',
      path: '/portfolio/:id/items/:entry_id',
      params: entryParams,
      summary: 'Remove an entry',
      description: '`entry_id` is the id of the entry, not the `item_id`. The ledger is not touched.',
      reply: NOTHING,
      errors: [...MISSING, 'PORTFOLIO_ENTRY_NOT_FOUND'],
      handle: ({ params: { id, entry_id }, credential }) =>
        removeEntry(store, writeScope(api, credential, id), entry_id),
    }),
  ]
}

const transactionScope = ({ fx, now }: ApiContext) => ({
  isCurrency: fx.isCurrency,
  latestDay: () => latestDay(now()),
})

function transactionRoutes(api: ApiContext): Route[] {
  const { store, catalog, budget, reads } = api
  return [
    defineRoute({
      ...OWN,
      id: 'listTransactions',
      method: 'get',
      path: '/portfolio/:id/transactions',
      summary: 'Transactions of a portfolio, newest first',
      description: `By date, and on a day by the order of entry. ${EXPENSIVE_IF_LARGE}`,
      reply: json('TransactionsReply', transactionsReply, 'All transactions.'),
      errors: MISSING,
      async handle({ params: { id }, credential, response }) {
        const { transaction_count } = await findPortfolio(store, credential.accountId, id)
        await budget.charge(credential, transaction_count)
        const ledger = ledgerSlices(reads, { portfolioId: id, order: 'newest' })
        return stream(
          response,
          jsonList(ledger, one => withItem(catalog, one)),
        )
      },
    }),
    defineRoute({
      ...OWN,
      id: 'createTransaction',
      method: 'post',
      path: '/portfolio/:id/transactions',
      isCreate: true,
      summary: 'Record a buy or a sell',
      description:
        'A sell of more than is held on its date is refused; all buys of a day count before its sells. A buy of an item that is not tracked yet makes an entry for it. `price` is that of one unit in hundredths of `currency`.',
      body: transactionBody(transactionScope(api)),
      reply: json('TransactionReply', transactionReply, 'The new transaction.', 201),
      errors: [...MISSING, 'ITEM_NOT_FOUND', 'INSUFFICIENT_HOLDINGS', 'PORTFOLIO_ITEM_LIMIT_REACHED'],
      async handle({ params: { id }, body, credential, request }) {
        await findPortfolio(store, credential.accountId, id)
        const { item_id: _, market_hash_name: __, phase: ___, ...members } = body
        const idempotencyKey = idempotencyKeyOf(request, 'addTransaction', id, JSON.stringify(body))
        const scope = writeScope(api, credential, id, idempotencyKey)
        const input = {
          ...members,
          item_id: itemOfBody(catalog, body).item_id,
          fee_amount: members.fee_amount ?? null,
          fee_percentage: members.fee_percentage ?? null,
          marketplace: members.marketplace ?? null,
          note: members.note ?? null,
        }
        return withItem(catalog, await addTransaction(store, scope, input))
      },
    }),
  ]
}

function transactionChanges(api: ApiContext): Route[] {
  const { store, catalog } = api
  const one = { ...OPEN, path: '/portfolio/:id/transactions/:tx_id', params: transactionParams } as const
  return [
    defineRoute({
      ...one,
      id: 'updateTransaction',
      method: 'patch',
      summary: 'Change a transaction',
      description: 'What is left out stays; fees, marketplace and note are taken away by null.',
      body: transactionPatch(transactionScope(api)),
      reply: json('TransactionReply', transactionReply, 'The transaction as it is now.'),
      errors: [...MISSING, 'TRANSACTION_NOT_FOUND', 'INSUFFICIENT_HOLDINGS', 'PORTFOLIO_ITEM_LIMIT_REACHED'],
      async handle({ params: { id, tx_id }, body, credential }) {
        const members = Object.entries(body).filter(([, value]) => value !== undefined)
        const changed = Object.fromEntries(members) as TransactionPatch
        const scope = writeScope(api, credential, id)
        return withItem(catalog, await changeTransaction(store, scope, tx_id, changed))
      },
    }),
    defineRoute({
      ...one,
      id: 'deleteTransaction',
      method: 'delete',
      summary: 'Take a transaction back',
      description: 'A buy whose units were sold later cannot be taken back before that sell.',
      reply: NOTHING,
      errors: [...MISSING, 'TRANSACTION_NOT_FOUND', 'INSUFFICIENT_HOLDINGS', 'PORTFOLIO_ITEM_LIMIT_REACHED'],
      handle: ({ params: { id, tx_id }, credential }) =>
        removeTransaction(store, writeScope(api, credential, id), tx_id),
    }),
  ]
}

/** A ledger, or so many of its transactions. */
export async function* ledgerSlices(
  database: Database,
  { count = Number.POSITIVE_INFINITY, ...scope }: LedgerScope & { count?: number },
): AsyncGenerator<TransactionRecord[]> {
  let { after } = scope
  let rest = count
  do {
    const limit = Math.min(rest, SLICE)
    const { records, next } = await readLedger(database, { ...scope, after, limit })
    yield records
    after = next
    rest -= limit
  } while (after && rest > 0)
}

export async function* entrySlices(database: Database, portfolioId: string): AsyncGenerator<EntryRecord[]> {
  const entries = await listEntries(database, portfolioId)
  for (let at = 0; at < entries.length; at += SLICE) {
    yield entries.slice(at, at + SLICE)
    await nextTurn()
  }
}

/** A JSON list of what slices hold, a text each; `opening` is all up to its first member. */
export async function* jsonList<T>(
  slices: AsyncIterable<readonly T[]>,
  shown: (one: T) => unknown,
  opening = '[',
): AsyncGenerator<string> {
  let before = opening
  for await (const slice of slices) {
    if (slice.length === 0) continue
    yield before + slice.map(one => JSON.stringify(shown(one))).join(',')
    before = ','
  }
  yield before === opening ? `${opening}]` : ']'
}
