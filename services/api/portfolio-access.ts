/**
 * Shared by all routes of portfolios: whose portfolio it is, and how a write is named.
 *
 * Reads the credential and the Idempotency-Key of a request. Invariant: every read and write names the account of the
 * credential, so no route can reach another account's portfolio.
 */
import type { Request } from 'express'
import type { Credential } from '#infra/http/credential.ts'
import { HttpError } from '#infra/http/http-error.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import type { ErrorCode } from '#schemas/api/error.ts'
import { ALL } from '#schemas/api/operation.ts'
import { portfolioParams } from '#schemas/api/portfolios.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { type IdempotencyKey, type PortfolioScope, requestHash } from '#services/portfolios/commands.ts'
import type { ApiContext } from './context.ts'
import { itemNotFound } from './queries/listing.ts'
import { nearestName } from './queries/near-names.ts'

export const OPEN = { group: 'Portfolio', tiers: ALL, access: 'account' } as const

export const OWN = { ...OPEN, params: portfolioParams } as const

export const MISSING: ErrorCode[] = ['PORTFOLIO_NOT_FOUND']

const KEY_FORM = /^[\x21-\x7e]{1,255}$/

export function writeScope(
  { tiers, now }: ApiContext,
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

/** Of the item of a record; items never leave the catalog. */
export function namedItem(
  catalog: CatalogReader,
  itemId: number,
): Pick<CatalogItem, 'item_id' | 'market_hash_name' | 'phase'> {
  const item = catalog.byId(itemId)
  return { item_id: itemId, market_hash_name: item?.market_hash_name ?? '', phase: item?.phase ?? null }
}
