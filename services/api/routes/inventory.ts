/** Rules: DECISIONS.md, "Portfolios and inventories". An inventory that was not read whole is an error answer. */
import type { z } from 'zod'
import { defineRoute, type Route } from '#infra/http/define-route.ts'
import { HttpError } from '#infra/http/http-error.ts'
import type { ErrorCode } from '#schemas/api/error.ts'
import { inventoryReply, lookupQuery } from '#schemas/api/inventory.ts'
import { ALL, json } from '#schemas/api/operation.ts'
import { readPlatformId } from '#services/accounts/reader.ts'
import { matchAsset, type PlatformAsset, PlatformFailure } from '#services/inventory/reader.ts'
import type { ApiContext } from '../context.ts'

const OPEN = { method: 'get', group: 'Inventory', tiers: ALL, access: 'account' } as const
const REFUSALS: ErrorCode[] = ['FORBIDDEN', 'NOT_FOUND', 'UPSTREAM_ERROR']
const LIVE = 'As the platform shows it, at most a minute old; nothing is stored. A private inventory is a 403.'

export const inventoryRoutes = (api: ApiContext): Route[] => [
  defineRoute({
    ...OPEN,
    id: 'getInventory',
    path: '/inventory/gamestore',
    summary: 'Inventory of the linked account',
    description: LIVE,
    reply: json('InventoryReply', inventoryReply, 'All items; empty when there is none.'),
    errors: ['PLATFORM_ACCOUNT_NOT_LINKED', ...REFUSALS],
    handle: async ({ credential }) => replyOf(api, await readLinkedInventory(api, credential.accountId)),
  }),
  defineRoute({
    ...OPEN,
    id: 'lookUpInventory',
    path: '/inventory/gamestore/lookup',
    summary: 'Inventory of any public account',
    description: LIVE,
    query: lookupQuery,
    reply: json('InventoryReply', inventoryReply, 'All items; empty when there is none.'),
    errors: REFUSALS,
    handle: async ({ query: { gamestore_id } }) => replyOf(api, await readInventory(api, gamestore_id)),
  }),
]

/** Reads the inventory of the platform account that an account has linked. */
export async function readLinkedInventory(api: ApiContext, accountId: string): Promise<readonly PlatformAsset[]> {
  const platformId = await readPlatformId(api.database.rows, accountId)
  if (platformId !== undefined) return readInventory(api, platformId)
  throw new HttpError('PLATFORM_ACCOUNT_NOT_LINKED', 'Link an account of the platform to this account first.')
}

async function readInventory({ inventories }: ApiContext, account: string): Promise<readonly PlatformAsset[]> {
  if (!inventories) throw new HttpError('SERVICE_UNAVAILABLE', 'This service is connected to no platform.')
  const inventory = await inventories.of(account).catch(cause => {
    if (!(cause instanceof PlatformFailure)) throw cause
    const headers = ['Retry-After', cause.isBusy ? '30' : '5']
    const detail = 'The platform does not answer at the moment; try again later.'
    throw new HttpError('UPSTREAM_ERROR', detail, { headers, cause })
  })
  if (inventory === 'private') {
    throw new HttpError('FORBIDDEN', 'This inventory is private; its owner can make it public.')
  }
  if (inventory === 'unknown') throw new HttpError('NOT_FOUND', 'The platform has no account with this id or name.')
  return inventory
}

function replyOf({ catalog }: ApiContext, inventory: readonly PlatformAsset[]): z.infer<typeof inventoryReply> {
  return {
    data: inventory.map(({ paint_index, ...asset }) => {
      const { market_hash_name } = asset
      const item = matchAsset(catalog, { market_hash_name, paint_index })
      return { ...asset, market_hash_name: item?.market_hash_name ?? market_hash_name, phase: item?.phase ?? null }
    }),
    total_count: inventory.length,
  }
}
