/**
 * The operations of platform inventories.
 *
 * Rules: DECISIONS.md, "Portfolios and inventories".
 */
import type { ErrorCode } from './error.ts'
import { inventoryReply, lookupQuery } from './inventory.ts'
import { ALL, get, json, type Operation } from './operation.ts'

const GROUP = 'Inventory'
const OPEN = { tiers: ALL, access: 'account' } as const
const REFUSALS: ErrorCode[] = ['FORBIDDEN', 'NOT_FOUND', 'UPSTREAM_ERROR']
const LIVE = 'As the platform shows it, at most a minute old; nothing is stored. A private inventory is a 403.'

/** All operations of inventories. */
export function inventoryOperations(): Operation[] {
  return [
    {
      ...{ ...get('readInventory', '/inventory/gamestore', GROUP), ...OPEN },
      summary: 'Inventory of the linked account',
      description: LIVE,
      reply: json('InventoryReply', inventoryReply, 'All items; empty when there is none.'),
      errors: ['PLATFORM_ACCOUNT_NOT_LINKED', ...REFUSALS],
    },
    {
      ...{ ...get('lookUpInventory', '/inventory/gamestore/lookup', GROUP), ...OPEN },
      summary: 'Inventory of any public account',
      description: LIVE,
      query: lookupQuery,
      reply: json('InventoryReply', inventoryReply, 'All items; empty when there is none.'),
      errors: REFUSALS,
    },
  ]
}
