/**
 * Every role of the platform, in the order in which a process starts them, and how they share processes.
 *
 * The roles of views come from streams/views.ts; the others are named here alone. Loads a role's code on request. Invariant:
 * readers start before what feeds them, and stop in reverse order, so nothing is published into a platform that has begun to
 * stop.
 */
import type { StartRole } from '#infra/runtime/role.ts'
import { VIEWS, type ViewName } from '#streams/views.ts'
import { CommandFailure, exitCodes } from './command-failure.ts'

/** Processes of a platform on one machine, in starting order. Why so: services/README.md, "Decisions". */
const PROCESSES = ['path', 'edges', 'analytics'] as const

interface Role {
  /** Where a whole platform is on one machine. */
  process: (typeof PROCESSES)[number]
  load(): Promise<{ start: StartRole }>
  /** It follows the topics whole in each of its processes, without a group. */
  readsWithoutGroup?: boolean
  /** Its processes divide their work in a group of their own, and read nothing in it. */
  isDivided?: boolean
  /** It writes in transactions, under ids that begin with its name. */
  isTransactional?: boolean
  /** It stands in for a service of somebody else's, so it runs where it is named alone. */
  isStandIn?: boolean
  /** It answers clients, and so needs the port that they know. */
  serves?: boolean
  /** It holds thousands of idle clients: a process of its own keeps its heap small. */
  holdsClients?: boolean
}

const BEFORE_VIEWS = {
  alerts: { process: 'edges', load: () => import('#services/alerts/main.ts'), isTransactional: true },
} satisfies Record<string, Role>

const AFTER_VIEWS = {
  'provisional-items': {
    process: 'path',
    load: () => import('#streams/provisional-items/main.ts'),
    isTransactional: true,
  },
  book: { process: 'path', load: () => import('#streams/book/main.ts'), isTransactional: true },
  api: { process: 'edges', load: () => import('#services/api/main.ts'), readsWithoutGroup: true, serves: true },
  feed: {
    process: 'edges',
    load: () => import('#services/feed/main.ts'),
    readsWithoutGroup: true,
    serves: true,
    holdsClients: true,
  },
  'inventory-stand-in': { process: 'edges', load: () => import('#services/inventory/main.ts'), isStandIn: true },
  ingest: {
    process: 'analytics',
    load: () => import('#services/ingest/main.ts'),
    isTransactional: true,
    isDivided: true,
  },
} satisfies Record<string, Role>

export type RoleName = keyof typeof BEFORE_VIEWS | ViewName | keyof typeof AFTER_VIEWS

const viewRoles = VIEWS.map(({ name, process, start }) => [name, { process, load: async () => ({ start }) }])

const ROLES = { ...BEFORE_VIEWS, ...Object.fromEntries(viewRoles), ...AFTER_VIEWS } as Record<RoleName, Role>

export const ROLE_NAMES = Object.keys(ROLES) as RoleName[]

/** Whether a fact holds of a role; none does of what is no role, such as a view or the step of set-up. */
export const isRoleThat = (fact: Exclude<keyof Role, 'process' | 'load'>, name: string): boolean =>
  (ROLES as Record<string, Role | undefined>)[name]?.[fact] ?? false

/** How a platform on one machine spreads its roles over processes, in starting order. */
export const GROUPS = PROCESSES.map(name => {
  return { name, roles: ROLE_NAMES.filter(role => ROLES[role].process === name) }
})

export async function loadRole(name: RoleName): Promise<StartRole> {
  return (await ROLES[name].load()).start
}

/** The named roles without repeats, in starting order; all but stand-ins when none is named. Throws on an unknown name. */
export function chooseRoles(names: readonly string[]): RoleName[] {
  const unknown = names.filter(name => !(name in ROLES))
  const roles = ROLE_NAMES.toSorted().join(', ')
  if (unknown.length > 0)
    throw new CommandFailure(`no role is called ${unknown.join(', ')}. Roles: ${roles}`, exitCodes.usage)
  return ROLE_NAMES.filter(name => (names.length === 0 ? !ROLES[name].isStandIn : names.includes(name)))
}
