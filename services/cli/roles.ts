/**
 * Every role of the platform, in the order in which a process starts them, and how they share processes.
 *
 * Loads a role's code on request. Invariant: readers start before what feeds them, and stop in reverse order, so nothing is
 * published into a platform that has begun to stop.
 */
import type { StartRole } from '#infra/runtime/role.ts'

const LOADERS = {
  delivery: () => import('#services/alerts/delivery/main.ts'),
  fx: () => import('#streams/fx/main.ts'),
  'provider-health': () => import('#streams/provider-health/main.ts'),
  sales: () => import('#streams/sales/main.ts'),
  history: () => import('#streams/history/main.ts'),
  'market-summary': () => import('#streams/market-summary/main.ts'),
  candles: () => import('#streams/candles/main.ts'),
  'live-view': () => import('#streams/live-view/main.ts'),
  accounts: () => import('#services/alerts/rules/main.ts'),
  'alert-triggers': () => import('#streams/alert-triggers/main.ts'),
  book: () => import('#streams/book/main.ts'),
  api: () => import('#services/api/main.ts'),
  feed: () => import('#services/feed/main.ts'),
  'inventory-stand-in': () => import('#services/inventory/main.ts'),
  ingest: () => import('#services/ingest/main.ts'),
} satisfies Record<string, () => Promise<{ start: StartRole }>>

/** Name of a role. */
export type RoleName = keyof typeof LOADERS

/** All roles in starting order. */
export const ROLE_NAMES = Object.keys(LOADERS) as RoleName[]

/** Roles that answer clients, and so need the port that clients know. */
export const SERVING_ROLES: readonly RoleName[] = ['api', 'feed']

/** Roles that hold thousands of idle clients: a process of theirs alone keeps its heap small. */
export const HOLDING_ROLES: readonly RoleName[] = ['feed']

/** Roles that share a process. */
export interface RoleGroup {
  name: string
  roles: readonly RoleName[]
}

/** How a platform on one machine spreads its roles, in starting order. Why so: README, "Design". */
export const GROUPS: readonly RoleGroup[] = [
  { name: 'history', roles: ['delivery', 'sales', 'history', 'candles', 'market-summary'] },
  { name: 'live', roles: ['fx', 'provider-health', 'live-view', 'alert-triggers'] },
  { name: 'book', roles: ['book'] },
  { name: 'api', roles: ['api', 'feed', 'accounts', 'inventory-stand-in'] },
  { name: 'ingest', roles: ['ingest'] },
]

/** Loads a role. */
export async function loadRole(name: RoleName): Promise<StartRole> {
  return (await LOADERS[name]()).start
}

/** The named roles without repeats, in starting order; all when none is named. Throws on an unknown name. */
export function chooseRoles(names: readonly string[]): RoleName[] {
  const unknown = names.filter(name => !(name in LOADERS))
  if (unknown.length > 0) {
    throw new Error(`no role is called ${unknown.join(', ')}. Roles: ${[...ROLE_NAMES].sort().join(', ')}`)
  }
  return ROLE_NAMES.filter(name => names.length === 0 || names.includes(name))
}
