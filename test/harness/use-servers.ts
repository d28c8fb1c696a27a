/**
 * What a test file that needs servers calls first: real servers and a namespace of its own on them.
 *
 * Creates topics, schemas, tables and catalog through the platform's own set-up step, and removes the
 * namespace after the file's last test. Two test files never see each other's topics, groups, keys, databases or subjects,
 * so they may share servers, also with other runs. A role that ended unannounced fails the file, whether a test checks it
 * or not.
 */
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type PlatformConfig, readConfig, type ServerAddresses } from '#infra/runtime/config.ts'
import { type Log, openLog } from '#infra/runtime/log.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import { newSecretKey } from '#infra/runtime/sealed-box.ts'
import type { ServerName } from '#infra/stack/running-servers.ts'
import type { RoleName } from '#services/cli/roles.ts'
import { addressVariables } from '#services/cli/settle-environment.ts'
import { type OwnServer, type OwnServerOptions, openOwnServer } from './own-server.ts'
import { removeNamespace } from './remove-namespace.ts'
import { type SpawnedRole, spawnRole } from './spawn-role.ts'
import { type StartedRoles, startRoles } from './start-roles.ts'
import { serversEndWithRun, testServers } from './test-servers.ts'

const START_LIMIT_MS = 300_000

/** A test file's namespace on servers, those of the run or a cluster of its own; its members may be read from the first `before` hook on. */
export interface TestNamespace {
  readonly namespace: string
  readonly config: PlatformConfig
  /** The environment that gives a child process the same configuration. */
  readonly environment: Record<string, string>
  readonly log: Log
  /** Starts `marketlog run <role>` as a process of its own; killed after the file at the latest. */
  spawnRole(role: string, env?: Record<string, string>): Promise<SpawnedRole>
}

/** A test file's namespace on the servers of the run. */
export interface TestPlatform extends TestNamespace {
  /** A server that is this file's alone. */
  own(name: ServerName): OwnServer
  /** Starts roles in this process behind one HTTP host on a free port; stopped after the file at the latest. */
  startRoles(roles: readonly (RoleName | StartRole)[], overrides?: Partial<PlatformConfig>): Promise<StartedRoles>
}

/**
 * Gives the surrounding `describe` servers and a namespace. With `setUp: false` the namespace stays
 * empty: no topics, schemas, tables or catalog. Servers named in `own` are started for it alone, so that it may
 * harm them.
 */
export function useServers(
  options: { setUp?: boolean; own?: Partial<Record<ServerName, OwnServerOptions>> } = {},
): TestPlatform {
  let current: Omit<TestPlatform, 'startRoles' | 'spawnRole' | 'own'> | undefined
  const own = new Map<ServerName, OwnServer>()
  const started: { stop(): Promise<void> }[] = []
  const needed = () => {
    if (current === undefined)
      throw new Error('the servers are ready from the first before hook on, not while tests are collected')
    return current
  }

  before('servers and namespace', async function () {
    this.timeout(START_LIMIT_MS)
    // Added only now, and so after the file's own hooks: those still need what it removes.
    this.runnable().parent?.afterAll('end of the namespace', end)
    const shared = await testServers()
    for (const [name, wanted] of Object.entries(options.own ?? {}) as [ServerName, OwnServerOptions][]) {
      own.set(name, await openOwnServer(name, wanted))
    }
    const addresses = Object.assign({ ...shared }, ...[...own.values()].map(server => server.addresses))
    current = describeNamespace(addresses, mkdtempSync(join(tmpdir(), 'marketlog-state-')))
    if (options.setUp === false) return
    // It loads every room's set-up, which a file that takes an empty namespace need not wait for.
    const { setUp } = await import('#services/cli/set-up.ts')
    await setUp(current.config, current.log)
  })

  async function end(): Promise<void> {
    // In reverse, as a process would stop them; a role that a test has stopped already stops at once.
    const problems: unknown[] = []
    for (const one of started.reverse()) await one.stop().catch(problem => problems.push(problem))
    try {
      if (current !== undefined) await remove(current)
    } finally {
      for (const server of own.values()) await server.close()
    }
    if (problems.length > 0) throw problems[0]
  }

  const keep = <T extends { stop(): Promise<void> }>(one: T): T => {
    started.push(one)
    return one
  }
  return {
    get namespace() {
      return needed().namespace
    },
    get config() {
      return needed().config
    },
    get environment() {
      return needed().environment
    },
    get log() {
      return needed().log
    },
    own(name) {
      const server = own.get(name)
      if (server === undefined) throw new Error(`${name} is shared with others`)
      return server
    },
    startRoles: async (roles, overrides = {}) =>
      keep(await startRoles(roles, { config: { ...needed().config, ...overrides }, log: needed().log })),
    spawnRole: async (role, env = {}) =>
      keep(await spawnRole(role, { ...needed().environment, LOG_LEVEL: 'info', ...env })),
  }
}

async function remove({ config, log }: Pick<TestPlatform, 'config' | 'log'>): Promise<void> {
  await removeNamespace(config, log, { keepSubjects: await serversEndWithRun() })
  rmSync(config.stateDir, { recursive: true, force: true })
}

function describeNamespace(addresses: ServerAddresses, stateDir: string) {
  const namespace = `t${randomBytes(4).toString('hex')}.`
  const environment: Record<string, string> = {
    MARKETLOG_NAMESPACE: namespace,
    MARKETLOG_STATE_DIR: stateDir,
    MARKETLOG_RUN_DIR: join(stateDir, 'run'),
    ...(addressVariables(addresses) as Record<string, string>),
    HOST: '127.0.0.1',
    PORT: '0',
    MARKET: 'empty',
    MARKETLOG_SECRET_KEY: newSecretKey(),
    LOG_LEVEL: process.env.LOG_LEVEL ?? 'error',
  }
  const config = readConfig(environment)
  return { namespace, environment, config, log: openLog({ level: config.logLevel, name: 'test' }) }
}
