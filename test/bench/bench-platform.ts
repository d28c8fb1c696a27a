/** Roles never share the measuring process's event loop: each runs as a process of its own. */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ClickhouseWriter, openWriter } from '#infra/clickhouse/clickhouse.ts'
import { type Database, type DatabaseOptions, databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName, type PlatformConfig, readConfig, type ServerAddresses } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { RoleName } from '#services/cli/roles.ts'
import { setUp } from '#services/cli/set-up.ts'
import { inVersions } from '#test/fixtures/view-tables.ts'
import { removeNamespace } from '#test/harness/remove-namespace.ts'
import { writeRoomyTiers } from '#test/harness/roomy-tiers.ts'
import { newEnvironment } from '#test/harness/test-platform.ts'
import { type RoleProcess, startRoleProcess } from './role-process.ts'

export interface BenchPlatform {
  readonly config: PlatformConfig
  /** What gives a child process the same configuration. */
  readonly environment: Readonly<Record<string, string>>
  readonly log: Log
  /** The running process of a role alone, started when there is none; resolves when it listens. */
  role(name: RoleName, env?: Record<string, string>): Promise<RoleProcess>
  /** Starts a process of one or more roles, as the first or in the place of one that has ended. */
  start(name: string, roles: readonly RoleName[], env?: Record<string, string>): Promise<RoleProcess>
  stop(name: string): Promise<void>
  stopAll(): Promise<void>
  /** Stops every process and removes the namespace. */
  close(): Promise<void>
}

export interface BenchPlatformOptions {
  addresses: ServerAddresses
  log: Log
  /** Folder in which the roles' logs stay after the run. */
  logs: string
}

export async function openBenchPlatform({ addresses, log, logs }: BenchPlatformOptions): Promise<BenchPlatform> {
  rmSync(logs, { recursive: true, force: true })
  mkdirSync(logs, { recursive: true })
  const stateDir = mkdtempSync(join(tmpdir(), 'marketlog-bench-'))
  const environment = {
    ...newEnvironment(addresses, { initial: 'b', stateDir }),
    MARKETLOG_TIERS: writeRoomyTiers(stateDir, { streamStarts: 'unlimited' }),
  }
  const config = readConfig(environment)
  await setUp(config, log)
  const running = new Map<string, RoleProcess>()
  const start: BenchPlatform['start'] = async (name, roles, env = {}) => {
    const process = await startRoleProcess({ name, roles, environment: { ...environment, ...env }, logs })
    running.set(name, process)
    return process
  }
  const stop = async (name: string): Promise<void> => {
    const process = running.get(name)
    running.delete(name)
    await process?.stop()
  }
  const stopAll = async (): Promise<void> => {
    await Promise.all([...running.keys()].map(stop))
  }
  return {
    config,
    environment,
    log,
    start,
    stop,
    stopAll,
    role: async (name, env) => running.get(name) ?? start(name, [name], env),
    async close() {
      await stopAll()
      await removeNamespace(config, log)
      rmSync(stateDir, { recursive: true, force: true })
    },
  }
}

/** Works on the namespace's database of ClickHouse. */
export function withClickhouse<T>(
  { config }: BenchPlatform,
  work: (writer: ClickhouseWriter) => Promise<T>,
): Promise<T> {
  const writer = inVersions(
    openWriter(config.servers.clickhouse, { database: databaseName(config.namespace), name: 'bench' }),
  )
  return work(writer).finally(() => writer.close())
}

export function withDatabase<T>(
  { config, log }: BenchPlatform,
  options: Partial<DatabaseOptions>,
  work: (database: Database) => Promise<T>,
): Promise<T> {
  const url = databaseUrl(config.servers.postgres, databaseName(config.namespace))
  const database = openDatabase(url, { name: 'bench', log, connections: 1, ...options })
  return work(database).finally(() => database.close())
}
