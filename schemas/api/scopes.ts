/** The scopes to which a child key may be confined, and those that operations need. Rules: DECISIONS.md, "Keys and sessions". */

import type { Group } from './operation.ts'

/** The scopes, in the order in which a key lists them. */
export const SCOPES = ['market:read', 'feeds', 'portfolio', 'alerts', 'webhooks'] as const

export type Scope = (typeof SCOPES)[number]

/** The scope of the operations of a group; one that is not here is closed to keys with scopes. */
const OF_GROUP: Readonly<Partial<Record<Group, Scope>>> = {
  Prices: 'market:read',
  Bids: 'market:read',
  Sales: 'market:read',
  Catalog: 'market:read',
  'Market analytics': 'market:read',
  Feeds: 'feeds',
  Portfolio: 'portfolio',
  Inventory: 'portfolio',
  Alerts: 'alerts',
  Webhooks: 'webhooks',
}

/** Asked of a key with scopes: one of them, nothing (`any`), or that it has none (`none`). */
export type NeededScope = Scope | 'any' | 'none'

export const scopeNeeded = ({ group, scope }: { group?: Group; scope?: 'any' }): NeededScope =>
  scope ?? (group && OF_GROUP[group]) ?? 'none'

/** Whether scopes open an operation; null or undefined are those of a key without scopes, which is not confined. */
export const permits = (scopes: readonly Scope[] | null | undefined, needed: NeededScope): boolean =>
  !scopes || needed === 'any' || (needed !== 'none' && scopes.includes(needed))
