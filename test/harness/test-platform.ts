/**
 * A platform of a test file's own on some servers: its namespace, the ways into it, and the roles that run in it. Namespaces never share
 * topics, groups, keys, databases or subjects, so test files may share servers. What is opened or started here is closed after the file's last
 * test, in reverse order; a role that ended unannounced fails the file.
 */
import { randomBytes } from 'node:crypto'
import { openWriter } from '#infra/clickhouse/clickhouse.ts'
import type { Tier } from '#infra/config/tiers.ts'
import { connectKafka, type KafkaConnection } from '#infra/kafka/connection.ts'
import type { LagReader } from '#infra/kafka/lag.ts'
import { openPublisher, type Publisher } from '#infra/kafka/publisher.ts'
import { type Database, type DatabaseOptions, databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { closeRedis, openRedis, type Redis } from '#infra/redis/redis.ts'
import { databaseName, type PlatformConfig, readConfig, type ServerAddresses } from '#infra/runtime/config.ts'
import { type Log, openLog } from '#infra/runtime/log.ts'
import type { StartRole } from '#infra/runtime/role.ts'
import type { RoleName } from '#services/cli/roles.ts'
import { addressVariables } from '#services/cli/settle-environment.ts'
import { runCommand } from './run-command.ts'
import { type SpawnedRole, spawnRole } from './spawn-role.ts'
import { type StartedRoles, startRoles } from './start-roles.ts'
import { inVersions } from './view-versions.ts'

const START_LIMIT_MS = 300_000
const DRAIN_LIMIT_MS = 120_000

/** A platform; its members may be read from the first `before` hook on. */
export type TestPlatform = ReturnType<typeof platformOf>

export type OnEnd = (end: () => unknown) => void

export interface OpenedPlatform {
  config: PlatformConfig
  environment: Record<string, string>
  log: Log
  /** How a role's process comes in, where that differs from role to role. */
  roleEnvironment?(role: string): Record<string, string>
}

/** Gives the surrounding `describe` a platform, and what `open` has opened besides. */
export function providePlatform<T extends OpenedPlatform>(
  open: (onEnd: OnEnd) => Promise<T>,
): { platform: TestPlatform; opened: () => T } {
  let current: T | undefined
  const ends: (() => unknown)[] = []
  const opened = (): T => {
    if (current === undefined)
      throw new Error('the servers are ready from the first before hook on, not while tests are collected')
    return current
  }
  before('servers and namespace', async function () {
    this.timeout(START_LIMIT_MS)
    // Added only now, and so after the file's own hooks: those still need what it removes.
    this.runnable().parent?.afterAll('end of the namespace', function () {
      this.timeout(START_LIMIT_MS)
      return endAll(ends)
    })
    current = await open(end => void ends.push(end))
  })
  return { platform: platformOf(opened, end => void ends.push(end)), opened }
}

/** Does all of it, the last first, and throws what failed first. */
export async function endAll(ends: (() => unknown)[]): Promise<void> {
  const problems: unknown[] = []
  for (const end of ends.splice(0).reverse()) await (async () => end())().catch(problem => problems.push(problem))
  if (problems.length > 0) throw problems[0]
}

/** A platform of what was opened; what it opens or starts itself ends with it. */
export function platformOf(opened: () => OpenedPlatform, onEnd: OnEnd) {
  let database: Database | undefined
  const closed = <T extends { close(): Promise<void> }>(one: T): T => {
    onEnd(() => one.close())
    return one
  }
  const keep = <T extends { stop(): Promise<void> }>(one: T): T => {
    onEnd(() => one.stop())
    return one
  }
  const nameOfDatabase = () => databaseName(opened().config.namespace)
  const openPostgres = (options: Partial<Omit<DatabaseOptions, 'log'>>): Database => {
    const { config, log } = opened()
    return closed(
      openDatabase(databaseUrl(config.servers.postgres, nameOfDatabase()), { name: 'test', log, ...options }),
    )
  }
  const facts = withLateMembers(
    {},
    {
      namespace: () => opened().config.namespace,
      config: () => opened().config,
      /** The environment that gives a child process the same configuration. */
      environment: () => opened().environment,
      log: () => opened().log,
      /** Postgres with the usual limits, opened at the first use. */
      database: () => {
        database ??= openPostgres({})
        return database
      },
    },
  )
  return Object.assign(facts, {
    openDatabase: openPostgres,
    /** Has something stopped after the file's last test, whether that passed or not, and before what was opened earlier. */
    keep,
    /** ClickHouse, in whose statements and inserts a table of a view is the one of the version that is read. */
    openTables: () =>
      closed(inVersions(openWriter(facts.config.servers.clickhouse, { database: nameOfDatabase(), name: 'test' }))),
    async openRedis(): Promise<Redis> {
      const redis = await openRedis(facts.config, { name: 'test', log: facts.log })
      onEnd(() => closeRedis(redis))
      return redis
    },
    /** Kafka as a role or as a test sees it; `changes` replace variables of the environment. */
    connect(role = 'test', changes?: Record<string, string>): KafkaConnection {
      const { config, environment, log } = opened()
      return connectKafka({ config: changes ? readConfig({ ...environment, ...changes }) : config, role, log })
    },
    /** A publisher of one writer on a connection, whose codec it prepares. */
    openPublisher: async (kafka: KafkaConnection, writer: Parameters<typeof openPublisher>[1]): Promise<Publisher> =>
      closed(await openPublisher(kafka, writer)),
    async openLagReader(): Promise<LagReader> {
      const { openPlatformLag } = await import('#services/cli/lag.ts')
      return closed(await openPlatformLag(facts.config, facts.log))
    },
    async newKey(tier: Tier = 'quant'): Promise<string> {
      const { createAccountWithKey } = await import('#services/accounts/keys/commands.ts')
      return (await createAccountWithKey(facts.database, { tier })).key
    },
    /** Runs `marketlog` with these words as a process of its own, to its end. */
    command: (...words: string[]) => runCommand(words, { PATH: process.env.PATH, ...facts.environment }),
    /** Resolves when the groups of these roles, of all where none are named, reflect what the log holds now. */
    drained: (roles?: readonly string[], limitMs = DRAIN_LIMIT_MS) => drained(opened(), roles, limitMs),
    /** Starts `marketlog run <role>` as a process of its own; killed after the file at the latest. */
    async spawnRole(role: string, env: Record<string, string> = {}): Promise<SpawnedRole> {
      const { environment, roleEnvironment } = opened()
      const whole = { ...environment, LOG_LEVEL: 'info', ...roleEnvironment?.(role), ...env }
      return keep(await spawnRole(role, whole))
    },
    /** Starts roles in this process behind one HTTP host on a free port; stopped after the file at the latest. */
    startRoles: async (
      roles: readonly (RoleName | StartRole)[],
      overrides: Partial<PlatformConfig> = {},
    ): Promise<StartedRoles> =>
      keep(await startRoles(roles, { config: { ...facts.config, ...overrides }, log: facts.log })),
  })
}

async function drained(
  { config, log }: OpenedPlatform,
  roles: readonly string[] | undefined,
  limitMs: number,
): Promise<void> {
  const { waitForViews } = await import('#services/cli/lag.ts')
  const signal = AbortSignal.timeout(limitMs)
  let behind = 'nothing is known of the groups'
  const onProgress = (text: string): void => {
    behind = text
  }
  try {
    await waitForViews(config, log, { signal, onProgress, isAwaited: group => roles?.includes(group) ?? true })
  } catch (cause) {
    throw signal.aborted ? new Error(`not drained within ${limitMs} ms: ${behind}`, { cause }) : cause
  }
}

/** Adds members that are computed whenever they are read. */
export const withLateMembers = <T extends object, M extends Record<string, () => unknown>>(
  target: T,
  members: M,
): T & { readonly [Name in keyof M]: ReturnType<M[Name]> } =>
  Object.defineProperties(
    target,
    Object.fromEntries(Object.entries(members).map(([name, get]) => [name, { get, enumerable: true }])),
  ) as T & { readonly [Name in keyof M]: ReturnType<M[Name]> }

/** A fresh namespace on servers, as the environment of a process that runs in it. */
export const newEnvironment = (
  addresses: ServerAddresses,
  options: { initial: 't' | 'b'; stateDir: string },
): Record<string, string> => ({
  ...(addressVariables(addresses) as Record<string, string>),
  MARKETLOG_NAMESPACE: `${options.initial}${randomBytes(4).toString('hex')}.`,
  MARKETLOG_STATE_DIR: options.stateDir,
  CURSOR_KEY: randomBytes(16).toString('hex'),
  HOST: '127.0.0.1',
  PORT: '0',
  OPERATOR_PORT: '0',
  MARKET: 'empty',
})

/** An environment as it is read, with a log of tests. */
export function readTestEnvironment(environment: Record<string, string>): OpenedPlatform {
  const whole = { ...environment, LOG_LEVEL: process.env.LOG_LEVEL ?? 'error' }
  const config = readConfig(whole)
  return { config, environment: whole, log: openLog({ level: config.logLevel, name: 'test' }) }
}
