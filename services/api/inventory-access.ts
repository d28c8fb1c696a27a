/** Inventories of the platform as answers of the API: one that was not read whole is an error, and each reason has its own. */
import { readPlatformId } from '#services/accounts/reader.ts'
import type { PlatformAsset } from '#services/inventory/reader.ts'
import { ApiError } from './errors.ts'
import type { ApiParts } from './parts.ts'
import { kept } from './portfolio-access.ts'

/** The assets of an inventory. */
export type LinkedInventory = readonly PlatformAsset[]

/** Reads the inventory of the platform account that an account has linked. */
export async function readLinkedInventory(parts: ApiParts, accountId: string): Promise<LinkedInventory> {
  const platformId = await kept(readPlatformId(parts.database.rows, accountId))
  if (platformId !== undefined) return readInventory(parts, platformId)
  throw new ApiError('PLATFORM_ACCOUNT_NOT_LINKED', 'Link an account of the platform to this account first.')
}

/** Reads the inventory of an account id or vanity name. */
export async function readInventory({ inventories }: ApiParts, account: string): Promise<LinkedInventory> {
  if (!inventories) throw new ApiError('SERVICE_UNAVAILABLE', 'This service is connected to no platform.')
  const answer = await inventories.of(account)
  switch (answer.kind) {
    case 'found':
      return answer.assets
    case 'private':
      throw new ApiError('FORBIDDEN', 'This inventory is private; its owner can make it public.')
    case 'unknown':
      throw new ApiError('NOT_FOUND', 'The platform has no account with this id or name.')
    case 'failed':
      throw new ApiError('UPSTREAM_ERROR', 'The platform does not answer at the moment; try again later.', {
        headers: ['Retry-After', answer.isBusy ? '30' : '5'],
        cause: new Error(answer.reason),
      })
  }
}
