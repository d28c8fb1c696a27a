/**
 * The whole platform for a fault test: every role as a process of its own, two gateways, marketplaces beside it.
 *
 * Invariant: a role that the platform gains is among them without a word here; `ingest` starts only when it is told
 * to, so that clients can be there before the first change.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROLE_NAMES, type RoleName } from '#services/cli/roles.ts'
import { writeRoomyTiers } from '#test/fixtures/roomy-tiers.ts'
import { eventually } from '#test/harness/eventually.ts'
import { randomOf, type SeededRandom } from '#test/harness/seeded-random.ts'
import type { TestPlatform } from '#test/harness/use-servers.ts'
import { type Kept, keepRunning, READY_LIMIT_MS } from './keep-running.ts'

/** Stands in for what is outside of the platform, and keeps nothing. */
const OUTSIDE: readonly RoleName[] = ['inventory-stand-in']
/** Its clients come back to the one that lives. */
const TWICE: readonly RoleName[] = ['feed']

/** Processes that are kept running. */
export interface WholePlatform {
  readonly all: readonly Kept[]
  /** The first process of a role. */
  one(role: RoleName): Kept
  /** Addresses of the processes of a role that are ready. */
  addresses(role: RoleName): readonly string[]
  /** Starts ingest. */
  open(): void
  /** Resolves when all processes say that they are ready. */
  ready(): Promise<void>
  stop(): Promise<void>
}

/** Starts all roles but ingest on a place's servers; `market` is the text of the market file. */
export function startWholePlatform(
  place: TestPlatform,
  random: SeededRandom,
  options: { market: string; environment: Record<string, string> },
): WholePlatform {
  const market = join(place.config.stateDir, 'market.json')
  writeFileSync(market, options.market)
  const environment = {
    ...options.environment,
    MARKET: market,
    MARKETLOG_TIERS: writeRoomyTiers(place.config.stateDir),
  }
  const all: Kept[] = []
  const addressOf = new Map<Kept, { pid: number; base: string }>()
  const keep = (role: RoleName, name: string): void => {
    const one = keepRunning({
      ...{ name, random: randomOf(random.integer(0, 2 ** 31)) },
      async start() {
        const started = await place.spawnRole(role, environment)
        started.baseUrl(READY_LIMIT_MS).then(
          base => addressOf.set(one, { pid: started.pid, base }),
          () => undefined,
        )
        return started
      },
    })
    all.push(one)
  }
  for (const role of ROLE_NAMES) {
    if (role === 'ingest' || OUTSIDE.includes(role)) continue
    keep(role, role)
    if (TWICE.includes(role)) keep(role, `${role} (second)`)
  }
  return {
    all,
    one: role => all.find(({ name }) => name === role) as Kept,
    addresses: role =>
      all.flatMap(one => {
        const known = addressOf.get(one)
        return one.name.split(' ')[0] === role && one.isReady() && known?.pid === one.role()?.pid && known
          ? [known.base]
          : []
      }),
    open: () => keep('ingest', 'ingest'),
    async ready() {
      for (const one of all) await eventually(one.isReady, READY_LIMIT_MS, `${one.name} to be ready`)
    },
    async stop() {
      await Promise.all(all.map(one => one.stop()))
    },
  }
}
