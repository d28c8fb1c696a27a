/**
 * Provides Kafka, the schema registry, Redis, ClickHouse and Postgres: by address, by Docker, or natively.
 *
 * Reads the given environment, writes the data directory. Invariant: either all five answer, or an error names the
 * one that does not and nothing started here is left running. Callers see addresses only; no code may ask which
 * of the three ways a server came.
 */
import { mkdirSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { ServerAddresses } from '#infra/runtime/config.ts'
import { removeProject, startDocker, stopProject } from './docker.ts'
import { postgresHomeElsewhere } from './native/postgres.ts'
import {
  NATIVE_SERVERS,
  type ProvideOptions,
  type ServerName,
  type StartedServers,
  startNative,
} from './native-start.ts'
import { acquireOwnership, endNotedProcesses, ownedByOther } from './owner.ts'

export interface RunningServers extends StartedServers {
  addresses: ServerAddresses
}

const SERVER_NAMES = Object.keys(NATIVE_SERVERS) as ServerName[]

/** Provides all five servers, each by address, Docker or natively, or throws and leaves nothing running. */
export async function provideServers(options: ProvideOptions): Promise<RunningServers> {
  const { environment } = options
  const signal = options.signal ?? new AbortController().signal
  signal.throwIfAborted()
  const dataDir = resolve(options.dataDir)
  const namedAddresses = addressesOf(environment)
  const startedNames = SERVER_NAMES.filter(name => namedAddresses[name] === undefined)
  if (startedNames.length === 0) return { addresses: namedAddresses as ServerAddresses, stop: async () => {} }

  for (const part of ['logs', 'pids']) mkdirSync(join(dataDir, part), { recursive: true })
  const release = await acquireOwnership(dataDir)
  try {
    await endEverythingNoted(dataDir)
    const resolved = { ...options, dataDir, signal }
    const native = Object.fromEntries(startedNames.map(name => [name, NATIVE_SERVERS[name]]))
    const started = (await startDocker(resolved, startedNames)) ?? (await startNative(resolved, native))
    return {
      addresses: { ...(started.addresses as ServerAddresses), ...namedAddresses },
      stop: async () => {
        await started.stop()
        release()
      },
    }
  } catch (error) {
    release()
    throw error
  }
}

/**
 * Stops whatever an earlier run with this dataDir left behind and returns the names of what it stopped.
 * Touches nothing while the run's own process still lives, and never a process that merely got a noted pid.
 */
export async function stopLeftovers(dataDir: string): Promise<string[]> {
  const directory = resolve(dataDir)
  return ownedByOther(directory) ? [] : endEverythingNoted(directory)
}

/** Wipes all data of the servers, also what had to lie outside the data directory; refuses while they run. */
export async function removeServerData(dataDir: string): Promise<void> {
  const directory = resolve(dataDir)
  if (ownedByOther(directory)) throw new Error(`the servers of ${directory} are running; stop them first`)
  await endEverythingNoted(directory)
  await removeProject(directory)
  const elsewhere = postgresHomeElsewhere(directory)
  if (elsewhere !== undefined) rmSync(elsewhere, { recursive: true, force: true })
  rmSync(directory, { recursive: true, force: true })
}

async function endEverythingNoted(dataDir: string): Promise<string[]> {
  const processes = await endNotedProcesses(dataDir)
  return (await stopProject(dataDir)) ? [...processes, 'docker'] : processes
}

function addressesOf(environment: Record<string, string | undefined>): Partial<ServerAddresses> {
  const brokers = environment.KAFKA_BROKERS?.split(',')
    .map(broker => broker.trim())
    .filter(broker => broker !== '')
  const clickhouse = environment.CLICKHOUSE_URL || undefined
  const addresses: Partial<ServerAddresses> = {
    kafka: brokers?.length ? brokers : undefined,
    schemaRegistry: environment.SCHEMA_REGISTRY_URL || undefined,
    redis: environment.REDIS_URL || undefined,
    clickhouse,
    clickhouseReadOnly: clickhouse === undefined ? undefined : environment.CLICKHOUSE_READONLY_URL || clickhouse,
    postgres: environment.DATABASE_URL || undefined,
  }
  return Object.fromEntries(Object.entries(addresses).filter(([, value]) => value !== undefined))
}
