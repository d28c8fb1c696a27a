/**
 * The routes of portfolios, their entries and their transactions.
 *
 * Rules: DECISIONS.md, "Portfolios and inventories". Reads and writes through services/portfolios.
 */
import type { Router } from 'express'
import type { z } from 'zod'
import { entryBody, entryParams, type entryReply, portfolioBody, portfolioParams } from '#schemas/api/portfolios.ts'
import {
  transactionBody,
  transactionParams,
  transactionPatch,
  type transactionReply,
} from '#schemas/api/transactions.ts'
import { formatDay } from '#schemas/values/instant.ts'
import { createPortfolio, deletePortfolio } from '#services/portfolios/commands.ts'
import { addEntry, removeEntry } from '#services/portfolios/entries/commands.ts'
import { type EntryRecord, listEntries } from '#services/portfolios/entries/reader.ts'
import {
  addTransaction,
  changeTransaction,
  removeTransaction,
  type TransactionPatch,
} from '#services/portfolios/ledger/commands.ts'
import { readLedger, type TransactionRecord } from '#services/portfolios/ledger/reader.ts'
import { findPortfolio, listPortfolios } from '#services/portfolios/reader.ts'
import { parseBody, readBody } from '../body.ts'
import { credentialOf, type Guard } from '../guard.ts'
import type { ApiParts } from '../parts.ts'
import { EVERYBODY, idempotencyKeyOf, itemOfBody, kept, namedItem, storeOf, writeScope } from '../portfolio-access.ts'
import { send, sendEmpty } from '../reply.ts'
import { parseParams } from '../request.ts'
import { sendParts } from '../send-parts.ts'

/** The day has begun somewhere on earth up to 14 hours before it does in UTC. */
const EARLIEST_ZONE_MS = 14 * 3_600_000
/** Transactions that are read, and held in memory, at once. */
const LEDGER_SLICE = 5_000

/** The last day that a transaction may have now. */
export const latestDay = (parts: ApiParts): string => formatDay(parts.now() + EARLIEST_ZONE_MS)

/** Adds the routes. */
export function addPortfolioRoutes(router: Router, guard: Guard, parts: ApiParts): void {
  const open = guard.account(...EVERYBODY)
  const store = storeOf(parts)

  router.post('/portfolio', open, readBody, async (request, response) => {
    const { accountId, tier } = credentialOf(response)
    const { name } = parseBody(portfolioBody, request)
    const idempotencyKey = idempotencyKeyOf(request, 'createPortfolio', name)
    const scope = { accountId, now: parts.now(), idempotencyKey }
    const record = await kept(createPortfolio(store, scope, { name, portfoliosMax: parts.tiers[tier].portfolios }))
    send(response, 201, JSON.stringify(record))
  })
  router.get('/portfolio', open, async (_request, response) => {
    const data = await kept(listPortfolios(store, credentialOf(response).accountId))
    send(response, 200, JSON.stringify({ data }))
  })
  router.delete('/portfolio/:id', open, async (request, response) => {
    const { id } = parseParams(portfolioParams, request)
    await kept(deletePortfolio(store, credentialOf(response).accountId, id))
    sendEmpty(response, 204, [])
  })
  addEntryRoutes(router, guard, parts)
  addTransactionRoutes(router, guard, parts)
}

function addEntryRoutes(router: Router, guard: Guard, parts: ApiParts): void {
  const open = guard.account(...EVERYBODY)
  const store = storeOf(parts)
  const shown = ({ item_id, id, ...record }: EntryRecord): z.infer<typeof entryReply> => ({
    ...{ id, ...namedItem(parts, item_id), ...record },
  })

  router.get('/portfolio/:id/items', open, async (request, response) => {
    const { id } = parseParams(portfolioParams, request)
    await kept(findPortfolio(store, credentialOf(response).accountId, id))
    const entries = await kept(listEntries(store, id))
    send(response, 200, JSON.stringify(entries.map(shown)))
  })
  router.post('/portfolio/:id/items', open, readBody, async (request, response) => {
    const { id } = parseParams(portfolioParams, request)
    const body = parseBody(entryBody, request)
    await kept(findPortfolio(store, credentialOf(response).accountId, id))
    const { item_id } = itemOfBody(parts, body)
    const scope = writeScope(parts, response, id, idempotencyKeyOf(request, 'addEntry', id, JSON.stringify(body)))
    const entry = await kept(addEntry(store, scope, { item_id, quantity: body.quantity, source: 'manual' }))
    send(response, 201, JSON.stringify(shown(entry)))
  })
  router.delete('/portfolio/:id/items/:entry_id', open, async (request, response) => {
    const { id, entry_id } = parseParams(entryParams, request)
    await kept(removeEntry(store, writeScope(parts, response, id), entry_id))
    sendEmpty(response, 204, [])
  })
}

function addTransactionRoutes(router: Router, guard: Guard, parts: ApiParts): void {
  const open = guard.account(...EVERYBODY)
  const store = storeOf(parts)
  const scope = { isCurrency: (code: string) => parts.fx.isCurrency(code), latestDay: () => latestDay(parts) }
  const body = transactionBody(scope)
  const patch = transactionPatch(scope)
  const shown = ({ item_id, id, ...record }: TransactionRecord): z.infer<typeof transactionReply> => ({
    ...{ id, ...namedItem(parts, item_id), ...record },
  })

  router.get('/portfolio/:id/transactions', open, async (request, response) => {
    const { id } = parseParams(portfolioParams, request)
    await kept(findPortfolio(store, credentialOf(response).accountId, id))
    const slices = ledgerSlices(parts, id, 'newest', records =>
      records.map(one => JSON.stringify(shown(one))).join(','),
    )
    await sendParts(response, 'application/json; charset=utf-8', joined('[', slices, ']'))
  })
  router.post('/portfolio/:id/transactions', open, readBody, async (request, response) => {
    const { id } = parseParams(portfolioParams, request)
    const input = parseBody(body, request)
    await kept(findPortfolio(store, credentialOf(response).accountId, id))
    const { item_id: _, market_hash_name: __, phase: ___, ...given } = input
    const record = await kept(
      addTransaction(
        store,
        writeScope(parts, response, id, idempotencyKeyOf(request, 'addTransaction', id, JSON.stringify(input))),
        {
          ...{ ...given, item_id: itemOfBody(parts, input).item_id },
          ...{ fee_amount: given.fee_amount ?? null, fee_percentage: given.fee_percentage ?? null },
          ...{ marketplace: given.marketplace ?? null, note: given.note ?? null },
        },
      ),
    )
    send(response, 201, JSON.stringify(shown(record)))
  })
  router.patch('/portfolio/:id/transactions/:tx_id', open, readBody, async (request, response) => {
    const { id, tx_id } = parseParams(transactionParams, request)
    const given = Object.entries(parseBody(patch, request)).filter(([, value]) => value !== undefined)
    const changed = Object.fromEntries(given) as TransactionPatch
    const record = await kept(changeTransaction(store, writeScope(parts, response, id), tx_id, changed))
    send(response, 200, JSON.stringify(shown(record)))
  })
  router.delete('/portfolio/:id/transactions/:tx_id', open, async (request, response) => {
    const { id, tx_id } = parseParams(transactionParams, request)
    await kept(removeTransaction(store, writeScope(parts, response, id), tx_id))
    sendEmpty(response, 204, [])
  })
}

/** The ledger of a portfolio as texts of bounded size. */
export async function* ledgerSlices(
  parts: ApiParts,
  portfolioId: string,
  order: 'newest' | 'oldest',
  write: (records: TransactionRecord[]) => string,
): AsyncGenerator<string> {
  let after: Awaited<ReturnType<typeof readLedger>>['next']
  do {
    const { records, next } = await kept(readLedger(parts.database, portfolioId, { after, limit: LEDGER_SLICE, order }))
    if (records.length > 0) yield write(records)
    after = next
  } while (after)
}

/** A JSON list of slices of its members. */
async function* joined(opening: string, slices: AsyncIterable<string>, closing: string): AsyncGenerator<string> {
  let before = opening
  for await (const slice of slices) {
    yield before + slice
    before = ','
  }
  yield before === opening ? opening + closing : closing
}
