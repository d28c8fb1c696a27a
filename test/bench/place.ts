/**
 * A namespace of a benchmark's own on the servers, and roles that run in it as processes of their own.
 *
 * Roles never share the measuring process's event loop. Invariant: whatever was started here has ended,
 * and the namespace is gone from the servers, when `close` resolves.
 */
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type PlatformConfig, readConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { ServerAddresses } from '#infra/stack/servers.ts'
import type { RoleName } from '#services/cli/roles.ts'
import { setUp } from '#services/cli/set-up.ts'
import { addressVariables } from '#services/cli/settle-environment.ts'
import { removeNamespace } from '#test/harness/remove-namespace.ts'
import { type RoleProcess, startRoleProcess } from './role-process.ts'

/** A namespace on the servers and the processes in it. */
export interface Place {
  readonly config: PlatformConfig
  readonly log: Log
  /** The running process of a role, started when there is none; resolves when it listens. */
  role(name: RoleName, env?: Record<string, string>): Promise<RoleProcess>
  /** Starts a second process of a role, or one after the first was killed. */
  startRole(name: RoleName, env?: Record<string, string>): Promise<RoleProcess>
  /** Stops a role's process, if it runs. */
  stopRole(name: RoleName): Promise<void>
  /** Stops every process and removes the namespace. */
  close(): Promise<void>
}

/** Where a place is opened. */
export interface PlaceOptions {
  addresses: ServerAddresses
  log: Log
  /** Folder in which the roles' logs stay after the run. */
  logs: string
}

/** Sets a fresh namespace up. */
export async function openPlace({ addresses, log, logs }: PlaceOptions): Promise<Place> {
  rmSync(logs, { recursive: true, force: true })
  mkdirSync(logs, { recursive: true })
  const stateDir = mkdtempSync(join(tmpdir(), 'marketlog-bench-'))
  const environment = {
    ...(addressVariables(addresses) as Record<string, string>),
    MARKETLOG_NAMESPACE: `b${randomBytes(4).toString('hex')}.`,
    MARKETLOG_STATE_DIR: stateDir,
    HOST: '127.0.0.1',
    PORT: '0',
    MARKET: 'empty',
  }
  const config = readConfig(environment)
  await setUp(config, log)
  const running = new Map<RoleName, RoleProcess>()
  const started: RoleProcess[] = []
  const startRole: Place['startRole'] = async (name, env = {}) => {
    const process = await startRoleProcess({ role: name, environment: { ...environment, ...env }, logs })
    running.set(name, process)
    started.push(process)
    return process
  }
  return {
    config,
    log,
    startRole,
    role: async (name, env) => running.get(name) ?? startRole(name, env),
    async stopRole(name) {
      await running.get(name)?.stop()
      running.delete(name)
    },
    async close() {
      await Promise.all(started.map(process => process.stop()))
      await removeNamespace(config, log)
      rmSync(stateDir, { recursive: true, force: true })
    },
  }
}
