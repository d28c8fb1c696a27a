/**
 * Starts the named servers natively, all at once, through the keeper.
 *
 * Writes logs, pids, ports and secrets in the data directory. Invariant: either all of them answer, or everything
 * started here has ended and the error names the server, the cause and the end of its log. A server that has ended by
 * itself later may be started again, on its port and with its data.
 */
import { existsSync, readFileSync, renameSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { ServerAddresses } from '#infra/runtime/config.ts'
import { cacheDirectory } from './downloads.ts'
import { type Keeper, startKeeper } from './keeper-client.ts'
import { prepareClickhouse } from './native/clickhouse.ts'
import { prepareKafka } from './native/kafka.ts'
import { brokerCount, planCluster } from './native/kafka-cluster.ts'
import type { NativeContext, PreparedServer, PrepareServer } from './native/native-server.ts'
import { preparePostgres } from './native/postgres.ts'
import { prepareRedis } from './native/redis.ts'
import { prepareSchemaRegistry } from './native/schema-registry.ts'
import { openPortBook, type PortBook } from './ports.ts'
import { waitUntilReady } from './readiness.ts'
import type { ProcessName, ProvideOptions, ServerName, StartedServers } from './running-servers.ts'
import { openSecretBook } from './secrets.ts'

const PREPARE: Record<ServerName, PrepareServer> = {
  kafka: prepareKafka,
  schemaRegistry: prepareSchemaRegistry,
  redis: prepareRedis,
  clickhouse: prepareClickhouse,
  postgres: preparePostgres,
}

const LOG_TAIL_LINES = 20
const LOG_KEPT_BYTES = 10 * 1024 * 1024

/** Starts the named servers; the first failure ends all of them. */
export async function startNative(
  options: ProvideOptions & { signal: AbortSignal },
  names: ServerName[],
): Promise<StartedServers> {
  const { dataDir, environment } = options
  const keeper = startKeeper(dataDir, environment)
  const failure = new AbortController()
  const signal = AbortSignal.any([options.signal, failure.signal])
  const ports = openPortBook(dataDir)
  const secret = openSecretBook(dataDir)
  const addresses: Partial<ServerAddresses> = {}
  const pids: Partial<Record<ProcessName, number>> = {}
  const afterStops = new Map<ProcessName, () => void>()
  let preparations = new Map<ProcessName, PrepareServer>()

  const start = async (name: ProcessName, port: PortBook): Promise<Partial<ServerAddresses>> => {
    const log = openLog(dataDir, name)
    const context = contextOf(options, { name, port, secret, signal, logFile: log.path })
    try {
      const prepare = preparations.get(name)
      if (prepare === undefined) throw new Error('it is not run here')
      const running = await startOne(name, prepare, context, keeper)
      pids[name] = running.pid
      afterStops.set(name, () => running.afterStop?.(keeper.endOf(name)))
      return running.addresses
    } catch (error) {
      throw describeFailure(name, error, log)
    }
  }
  try {
    preparations = await preparationsOf(options, names, { port: ports, secret, signal })
  } catch (error) {
    await keeper.stop()
    throw error
  }
  const starts = [...preparations.keys()].map(async name => {
    try {
      Object.assign(addresses, await start(name, ports))
    } catch (error) {
      failure.abort(error)
      throw error
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
  keeper.letGo()
  const stop = async () => {
    await keeper.stop()
    for (const afterStop of afterStops.values()) afterStop()
  }
  const restart = async (name: ProcessName): Promise<void> => {
    // A port book gives each port once; a new one finds those of before free again.
    await start(name, openPortBook(dataDir, { isFixed: true }))
  }
  return { addresses, pids, restart, stop }
}

/** What a server is given to prepare itself. */
function contextOf(
  options: ProvideOptions,
  own: Pick<NativeContext, 'port' | 'secret' | 'signal' | 'logFile'> & { name: string },
): NativeContext {
  const { dataDir, environment } = options
  return {
    ...own,
    dataDir,
    environment,
    cacheDir: resolve(cacheDirectory(environment)),
    ...(options.postgresTls && { postgresTls: options.postgresTls }),
    say: line => options.say(`${own.name}: ${line}`),
  }
}

/** The processes that the named servers take, each with its preparation: several for Kafka where CLUSTER asks for them. */
async function preparationsOf(
  options: ProvideOptions,
  names: ServerName[],
  shared: Pick<NativeContext, 'port' | 'secret' | 'signal'>,
): Promise<Map<ProcessName, PrepareServer>> {
  const single = new Map<ProcessName, PrepareServer>(names.map(name => [name, PREPARE[name]]))
  if (!names.includes('kafka')) return single
  const { dataDir, environment } = options
  if (brokerCount(environment) > 1) {
    const context = contextOf(options, { ...shared, name: 'kafka', logFile: openLog(dataDir, 'kafka').path })
    single.delete('kafka')
    return new Map([...(await planCluster(context, options.cluster ?? {})), ...single])
  }
  if (existsSync(join(dataDir, 'kafka-cluster')))
    throw new Error(`${dataDir} holds the log of several brokers; \`make clean\` removes it, CLUSTER=3 keeps it`)
  return single
}

async function startOne(
  name: ProcessName,
  prepare: PrepareServer,
  context: NativeContext,
  keeper: Keeper,
): Promise<PreparedServer & { pid: number }> {
  const prepared = await prepare(context)
  context.signal.throwIfAborted()
  const pid = await keeper.launch({
    server: name,
    directory: context.dataDir,
    logFile: context.logFile,
    identityFile: join(context.dataDir, 'pids', `${name}.json`),
    ...prepared.launch,
  })
  await waitUntilReady({
    isReady: prepared.isReady,
    limitMs: prepared.readyLimitMs,
    say: context.say,
    signal: context.signal,
    hopeless: () => {
      const how = keeper.endOf(name)
      return how === undefined ? undefined : `it ended while starting (${how})`
    },
  })
  await prepared.afterReady?.()
  return { ...prepared, pid }
}

interface ServerLog {
  path: string
  /** Length at the start of this run: what an earlier run wrote explains nothing. */
  from: number
}

function openLog(dataDir: string, name: ProcessName): ServerLog {
  const path = join(dataDir, 'logs', `${name}.log`)
  const size = statSync(path, { throwIfNoEntry: false })?.size ?? 0
  if (size <= LOG_KEPT_BYTES) return { path, from: size }
  renameSync(path, `${path}.1`)
  return { path, from: 0 }
}

function describeFailure(name: ProcessName, error: unknown, log: ServerLog): Error {
  const why = error instanceof Error ? error.message : String(error)
  const exists = statSync(log.path, { throwIfNoEntry: false }) !== undefined
  const written = exists ? readFileSync(log.path).subarray(log.from).toString().trimEnd() : ''
  const tail = written.split('\n').slice(-LOG_TAIL_LINES)
  const quoted = written === '' ? 'Its log is empty.' : `The end of its log, ${log.path}:\n  ${tail.join('\n  ')}`
  return new Error(`${name} could not be started: ${why}\n${quoted}`, { cause: error })
}
