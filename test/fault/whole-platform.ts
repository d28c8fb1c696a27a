/**
 * The whole platform for a fault test: every role as a process of its own, some as two, marketplaces beside it.
 *
 * A role that the platform gains is among them without a change here; `ingest` starts only when it is asked
 * to, so that clients can be there before the first change.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROLE_NAMES, type RoleName } from '#services/cli/roles.ts'
import { eventually } from '#test/harness/eventually.ts'
import { writeRoomyTiers } from '#test/harness/roomy-tiers.ts'
import { randomOf, type SeededRandom } from '#test/harness/seeded-random.ts'
import type { SpawnedRole } from '#test/harness/spawn-role.ts'
import type { TestPlatform } from '#test/harness/test-platform.ts'
import { type Kept, keepRunning, SAYS_WHY } from './keep-running.ts'

/** Stands in for what is outside of the platform, and keeps nothing. */
const OUTSIDE: readonly RoleName[] = ['inventory-stand-in']
/** Processes that are kept running. */
export interface WholePlatform {
  readonly all: readonly Kept[]
  /** The processes of a role. */
  of(role: RoleName): readonly Kept[]
  /** Addresses of the processes of a role that are ready. */
  addresses(role: RoleName): readonly string[]
  /** Starts ingest. */
  open(): void
  /** Resolves when all processes say that they are ready. */
  ready(): Promise<void>
  stop(): Promise<void>
}

/** How the platform is started. */
export interface PlatformOptions {
  /** The text of the market file. */
  market: string
  environment: Record<string, string>
  /** Roles of two processes; clients of one come back to the other. */
  twice: readonly RoleName[]
  /** The longest time that a process may take to be ready. */
  readyLimitMs: number
}

/** Starts all roles but ingest on the servers of a namespace. */
export function startWholePlatform(
  platform: TestPlatform,
  random: SeededRandom,
  options: PlatformOptions,
): WholePlatform {
  const { readyLimitMs, twice } = options
  const market = join(platform.config.stateDir, 'market.json')
  writeFileSync(market, options.market)
  const environment = {
    ...options.environment,
    MARKET: market,
    MARKETLOG_TIERS: writeRoomyTiers(platform.config.stateDir),
  }
  const all: Kept[] = []
  const addressOf = new Map<number, string>()
  const baseOf = (role: SpawnedRole): string | undefined => {
    const line = addressOf.has(role.pid) ? undefined : role.lines().find(one => /"port":\d+/.test(one))
    if (line !== undefined) addressOf.set(role.pid, `http://127.0.0.1:${JSON.parse(line).port}`)
    return addressOf.get(role.pid)
  }
  const keep = (role: RoleName, name: string): void => {
    const one = keepRunning({
      name,
      random: randomOf(random.integer(0, 2 ** 31)),
      mayEnd: SAYS_WHY,
      readyLimitMs,
      start: () => platform.spawnRole(role, environment),
    })
    all.push(one)
  }
  const keepAll = (role: RoleName): void => {
    keep(role, role)
    if (twice.includes(role)) keep(role, `${role} (second)`)
  }
  for (const role of ROLE_NAMES) if (role !== 'ingest' && !OUTSIDE.includes(role)) keepAll(role)
  const of = (role: RoleName): readonly Kept[] => all.filter(({ name }) => name.split(' ')[0] === role)
  return {
    all,
    of,
    addresses: role =>
      of(role).flatMap(one => {
        const running = one.isReady() ? one.role() : undefined
        return running === undefined ? [] : (baseOf(running) ?? [])
      }),
    open: () => keepAll('ingest'),
    async ready() {
      for (const one of all) await eventually(one.isReady, `${one.name} to be ready`, readyLimitMs)
    },
    async stop() {
      await Promise.all(all.map(one => one.stop()))
    },
  }
}
