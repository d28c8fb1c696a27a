/**
 * What all routes of portfolios share: whose portfolio it is, how a write is named, and what a lost store answers.
 *
 * Reads the credential and the Idempotency-Key of a request. Invariant: every read and write names the account of the
 * credential, so no route can reach another account's portfolio.
 */
import type { Request } from 'express'
import type { Tier, TierLimits } from '#infra/config/tiers.ts'
import type { Credential } from '#infra/http/credential.ts'
import { HttpError } from '#infra/http/http-error.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import type { ErrorCode } from '#schemas/api/error.ts'
import { ALL } from '#schemas/api/operation.ts'
import { portfolioParams } from '#schemas/api/portfolios.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { accountGone } from '#services/accounts/reader.ts'
import { type IdempotencyKey, type PortfolioScope, requestHash } from '#services/portfolios/commands.ts'
import { itemNotFound } from './queries/listing.ts'
import { nearestName } from './queries/near-names.ts'

/** What all routes of portfolios declare alike. */
export const OPEN = { group: 'Portfolio', tiers: ALL, access: 'account' } as const

/** What the routes of one portfolio declare alike. */
export const OWN = { ...OPEN, params: portfolioParams } as const

/** The refusals of a portfolio. */
export const MISSING: ErrorCode[] = ['PORTFOLIO_NOT_FOUND']

const KEY_FORM = /^[\x21-\x7e]{1,255}$/
/** What a mistake of ours in a statement or a value looks like; all else is a store that cannot answer now. */
const OUR_MISTAKE = /^(22|23|42)/
/** A reference to a row that is gone: portfolios are locked by their writers, so it is the account. */
const GONE = '23503'

/** Who writes into which portfolio. */
export function writeScope(
  { tiers, now }: { tiers: Record<Tier, TierLimits>; now: () => number },
  { accountId, tier }: Credential,
  portfolioId: string,
  idempotencyKey?: IdempotencyKey,
): PortfolioScope {
  const { portfolio_items: entriesMax, transactions: transactionsMax } = tiers[tier]
  return { accountId, portfolioId, now: now(), entriesMax, transactionsMax, idempotencyKey }
}

/** The Idempotency-Key of a create; `input` is everything that decides what it does. */
export function idempotencyKeyOf(
  request: Request,
  operation: string,
  ...input: (string | Buffer)[]
): IdempotencyKey | undefined {
  const key = request.headers['idempotency-key']
  if (key === undefined) return undefined
  if (typeof key === 'string' && KEY_FORM.test(key)) return { key, hash: requestHash(operation, ...input) }
  const msg = 'Input should be 1 to 255 visible ASCII characters'
  throw new HttpError('VALIDATION_ERROR', [
    { type: 'value_error', loc: ['header', 'Idempotency-Key'], msg, input: key, ctx: {} },
  ])
}

/** Runs a read or write of the store; what is neither refused nor a mistake of ours is a 503. */
export async function kept<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    const code = (error as { code?: unknown } | null)?.code
    if (code === GONE) throw accountGone()
    const isOurs = error instanceof TypeError || (typeof code === 'string' && OUR_MISTAKE.test(code))
    if (error instanceof HttpError || isOurs) throw error
    throw new HttpError('SERVICE_UNAVAILABLE', 'Portfolios are temporarily unavailable; try again.', { cause: error })
  }
}

/** The item that a body names; throws the 404 for one that the catalog lacks. */
export function itemOfBody(
  catalog: CatalogReader,
  body: { item_id?: number | undefined; market_hash_name?: string | undefined; phase?: string | undefined },
): CatalogItem {
  if (body.item_id !== undefined) {
    const item = catalog.byId(body.item_id)
    if (!item) throw itemNotFound()
    return item
  }
  const name = body.market_hash_name ?? ''
  const item = catalog.byId(catalog.idOf(name, body.phase ?? null) ?? -1)
  if (!item) throw itemNotFound(nearestName(catalog, name))
  return item
}

/** What a record shows of its item; items never leave the catalog. */
export function namedItem(
  catalog: CatalogReader,
  itemId: number,
): Pick<CatalogItem, 'item_id' | 'market_hash_name' | 'phase'> {
  const item = catalog.byId(itemId)
  return { item_id: itemId, market_hash_name: item?.market_hash_name ?? '', phase: item?.phase ?? null }
}
