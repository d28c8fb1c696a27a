/**
 * Provides Kafka, the schema registry, Redis, ClickHouse and Postgres: by address, by Docker, or natively.
 *
 * Reads the given environment, writes the data directory. Invariant: either all five answer, or an error names the
 * one that does not and nothing started here is left running. Callers see addresses only; no code may ask which
 * of the three ways a server came.
 */
import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { startDocker } from './docker.ts'
import { cacheDirectory } from './downloads.ts'
import { type Keeper, startKeeper } from './keeper-client.ts'
import { prepareClickhouse } from './native/clickhouse.ts'
import { prepareKafka } from './native/kafka.ts'
import type { NativeContext, PreparedServer, PrepareServer } from './native/native-server.ts'
import { postgresHomeElsewhere, preparePostgres } from './native/postgres.ts'
import { prepareRedis } from './native/redis.ts'
import { prepareSchemaRegistry } from './native/schema-registry.ts'
import { endNotedProcesses, ownedByOther, takeOwnership } from './owner.ts'
import { openPortBook } from './ports.ts'
import { readJson, replaceFile } from './processes.ts'

/** The five servers. */
export type ServerName = 'kafka' | 'schemaRegistry' | 'redis' | 'clickhouse' | 'postgres'

/** Where the servers answer: kafka as host:port, the others as URLs including credentials. */
export interface ServerAddresses {
  kafka: string[]
  schemaRegistry: string
  redis: string
  clickhouse: string
  clickhouseReadOnly: string
  postgres: string
}

/** The provided servers and how to stop those that were started for it. */
export interface RunningServers {
  addresses: ServerAddresses
  provided: Record<ServerName, 'address' | 'docker' | 'native'>
  pids: Partial<Record<ServerName, number>>
  stop(): Promise<void>
}

/** What providing servers needs to know. */
export interface ProvideOptions {
  dataDir: string
  environment: Record<string, string | undefined>
  say: (line: string) => void
  signal?: AbortSignal
}

const PREPARE: Record<ServerName, PrepareServer> = {
  kafka: prepareKafka,
  schemaRegistry: prepareSchemaRegistry,
  redis: prepareRedis,
  clickhouse: prepareClickhouse,
  postgres: preparePostgres,
}

/** All servers, in the order in which they are started. */
export const SERVER_NAMES = Object.keys(PREPARE) as ServerName[]

const QUIET_MS = 2_000
const PROGRESS_EVERY_MS = 3_000
const POLL_MS = 50
const LOG_TAIL_LINES = 20
const LOG_KEPT_BYTES = 10 * 1024 * 1024

/** Provides all five servers, each by address, Docker or natively, or throws and leaves nothing running. */
export async function provideServers(options: ProvideOptions): Promise<RunningServers> {
  const { environment } = options
  const signal = options.signal ?? new AbortController().signal
  signal.throwIfAborted()
  const dataDir = resolve(options.dataDir)
  const given = givenAddresses(environment)
  const missing = SERVER_NAMES.filter(name => given[name] === undefined)
  const provided = Object.fromEntries(SERVER_NAMES.map(name => [name, 'address'])) as RunningServers['provided']
  if (missing.length === 0) return { addresses: given as ServerAddresses, provided, pids: {}, stop: async () => {} }

  for (const part of ['logs', 'pids']) mkdirSync(join(dataDir, part), { recursive: true })
  const release = takeOwnership(dataDir)
  try {
    await endNotedProcesses(dataDir)
    const inDocker = await startDocker({ ...options, dataDir, signal }, missing)
    const started = inDocker ?? (await startNative({ ...options, dataDir, signal }, missing))
    for (const name of missing) provided[name] = inDocker === undefined ? 'native' : 'docker'
    return {
      addresses: { ...(started.addresses as ServerAddresses), ...given },
      provided,
      pids: started.pids,
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
  return ownedByOther(directory) ? [] : endNotedProcesses(directory)
}

/** Wipes all data of the servers, also what had to lie outside the data directory; refuses while they run. */
export async function removeServerData(dataDir: string): Promise<void> {
  const directory = resolve(dataDir)
  if (ownedByOther(directory)) throw new Error(`the servers of ${directory} are running; stop them first`)
  await endNotedProcesses(directory)
  const elsewhere = postgresHomeElsewhere(directory)
  if (elsewhere !== undefined) rmSync(elsewhere, { recursive: true, force: true })
  rmSync(directory, { recursive: true, force: true })
}

/** Addresses that the environment names. */
function givenAddresses(environment: Record<string, string | undefined>): Partial<ServerAddresses> {
  const brokers = environment.KAFKA_BROKERS?.split(',')
    .map(broker => broker.trim())
    .filter(broker => broker !== '')
  const clickhouse = environment.CLICKHOUSE_URL || undefined
  const named: Partial<ServerAddresses> = {
    kafka: brokers?.length ? brokers : undefined,
    schemaRegistry: environment.SCHEMA_REGISTRY_URL || undefined,
    redis: environment.REDIS_URL || undefined,
    clickhouse,
    clickhouseReadOnly: clickhouse === undefined ? undefined : environment.CLICKHOUSE_READONLY_URL || clickhouse,
    postgres: environment.DATABASE_URL || undefined,
  }
  return Object.fromEntries(Object.entries(named).filter(([, value]) => value !== undefined))
}

interface Started {
  addresses: Partial<ServerAddresses>
  pids: Partial<Record<ServerName, number>>
  stop(): Promise<void>
}

/** Starts the named servers natively and at once; the first failure ends all of them. */
async function startNative(options: ProvideOptions & { signal: AbortSignal }, names: ServerName[]): Promise<Started> {
  const { dataDir } = options
  const keeper = startKeeper(dataDir, options.environment)
  const failure = new AbortController()
  const signal = AbortSignal.any([options.signal, failure.signal])
  const shared = { dataDir, port: openPortBook(dataDir), secret: openSecrets(dataDir), signal }
  const addresses: Partial<ServerAddresses> = {}
  const pids: Partial<Record<ServerName, number>> = {}
  const afterStops: (() => void)[] = []
  const starts = names.map(async name => {
    const logFile = openLog(dataDir, name)
    try {
      const say = (line: string) => options.say(`${name}: ${line}`)
      const context: NativeContext = {
        ...shared,
        cacheDir: resolve(cacheDirectory(options.environment)),
        environment: options.environment,
        say,
        logFile: logFile.path,
      }
      const running = await startOne(name, context, keeper)
      pids[name] = running.pid
      afterStops.push(() => running.afterStop?.(keeper.endOf(name)))
      Object.assign(addresses, running.addresses)
    } catch (error) {
      const described = describeFailure(name, error, logFile)
      failure.abort(described)
      throw described
    }
  })
  const outcomes = await Promise.allSettled(starts)
  if (outcomes.some(outcome => outcome.status === 'rejected')) {
    await keeper.stop()
    throw options.signal.aborted ? options.signal.reason : failure.signal.reason
  }
  keeper.onUnexpectedEnd((server, how) =>
    options.say(`${server}: ended unexpectedly (${how}); its log is ${join(dataDir, 'logs', `${server}.log`)}`),
  )
  const stop = async () => {
    await keeper.stop()
    for (const afterStop of afterStops) afterStop()
  }
  return { addresses, pids, stop }
}

async function startOne(
  name: ServerName,
  context: NativeContext,
  keeper: Keeper,
): Promise<PreparedServer & { pid: number }> {
  const prepared = await PREPARE[name](context)
  context.signal.throwIfAborted()
  const pid = await keeper.launch({
    server: name,
    directory: context.dataDir,
    logFile: context.logFile,
    identityFile: join(context.dataDir, 'pids', `${name}.json`),
    ...prepared.launch,
  })
  const startedAt = performance.now()
  let nextWord = QUIET_MS
  while (!(await prepared.isReady())) {
    const waited = performance.now() - startedAt
    const end = keeper.endOf(name)
    if (end !== undefined) throw new Error(`it ended while starting (${end})`)
    if (waited > prepared.readyLimitMs) throw new Error(`it did not answer within ${prepared.readyLimitMs / 1000} s`)
    if (waited > nextWord) {
      context.say(`starting (${Math.round(waited / 1000)} s)`)
      nextWord = waited + PROGRESS_EVERY_MS
    }
    await pause(POLL_MS, undefined, { signal: context.signal })
  }
  await prepared.afterReady?.()
  return { ...prepared, pid }
}

interface ServerLog {
  path: string
  /** Length at the start of this run: what an earlier run wrote explains nothing. */
  from: number
}

function openLog(dataDir: string, name: ServerName): ServerLog {
  const path = join(dataDir, 'logs', `${name}.log`)
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0
  if (size <= LOG_KEPT_BYTES) return { path, from: size }
  renameSync(path, `${path}.1`)
  return { path, from: 0 }
}

function describeFailure(name: ServerName, error: unknown, log: ServerLog): Error {
  const why = error instanceof Error ? error.message : String(error)
  const written = statSync(log.path, { throwIfNoEntry: false })
    ? readFileSync(log.path).subarray(log.from).toString()
    : ''
  const tail = written.trimEnd().split('\n').slice(-LOG_TAIL_LINES)
  const quoted =
    written.trim() === '' ? 'Its log is empty.' : `The end of its log, ${log.path}:\n  ${tail.join('\n  ')}`
  return new Error(`${name} could not be started: ${why}\n${quoted}`, { cause: error })
}

function openSecrets(dataDir: string): (purpose: string) => string {
  const file = join(dataDir, 'secrets.json')
  const secrets = readJson<Record<string, string>>(file) ?? {}
  return purpose => {
    const known = secrets[purpose]
    if (known !== undefined) return known
    const fresh = randomBytes(18).toString('hex')
    secrets[purpose] = fresh
    replaceFile(file, JSON.stringify(secrets), 0o600)
    return fresh
  }
}
