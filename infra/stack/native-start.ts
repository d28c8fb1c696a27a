/**
 * Starts servers natively, all at once.
 *
 * Writes logs, pids, ports and secrets in the data directory. Invariant: either all of them answer, or everything
 * started here has ended and the error names the server, the cause and the end of its log. A server that has ended by
 * itself later may be started again, on its port and with its data.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { ServerAddresses } from '#infra/runtime/config.ts'
import { cacheDirectory } from './downloads.ts'
import { type LaunchedProcess, launch, rotateLog } from './launch.ts'
import { prepareClickhouse } from './native/clickhouse.ts'
import { prepareKafka } from './native/kafka.ts'
import type { PrepareServer } from './native/native-server.ts'
import { preparePostgres } from './native/postgres.ts'
import { prepareRedis } from './native/redis.ts'
import { prepareSchemaRegistry } from './native/schema-registry.ts'
import { openPortBook, type PortBook } from './ports.ts'
import { waitUntilReady } from './readiness.ts'
import type { ProvideOptions, ServerName, StartedServers } from './running-servers.ts'
import { openSecretBook } from './secrets.ts'

/** The five servers. */
export const NATIVE_SERVERS: Readonly<Record<ServerName, PrepareServer>> = {
  kafka: prepareKafka,
  schemaRegistry: prepareSchemaRegistry,
  redis: prepareRedis,
  clickhouse: prepareClickhouse,
  postgres: preparePostgres,
}

const LOG_TAIL_LINES = 20

/** Starts servers by name; the first failure ends all of them. */
export async function startNative(
  options: ProvideOptions & { signal: AbortSignal },
  servers: Readonly<Record<string, PrepareServer>>,
): Promise<StartedServers> {
  const { dataDir, environment } = options
  const failure = new AbortController()
  const signal = AbortSignal.any([options.signal, failure.signal])
  const secret = openSecretBook(dataDir)
  const addresses: Partial<ServerAddresses> = {}
  const pids: Record<string, number> = {}
  const launched = new Map<string, LaunchedProcess>()

  const start = async (name: string, port: PortBook): Promise<void> => {
    const prepare = servers[name]
    if (prepare === undefined) throw new Error(`${name} is not run here`)
    const logFile = join(dataDir, 'logs', `${name}.log`)
    const logStart = rotateLog(logFile)
    const say = (line: string) => options.say(`${name}: ${line}`)
    const cacheDir = resolve(cacheDirectory(environment))
    try {
      const context = { dataDir, environment, cacheDir, port, secret, signal, say, logFile }
      const prepared = await prepare(context)
      signal.throwIfAborted()
      // One that was there before takes its note away as it ends.
      await launched.get(name)?.ended
      const noteFile = join(dataDir, 'pids', `${name}.json`)
      const process = launch({ directory: dataDir, logFile, noteFile, ...prepared.launch })
      process.letGo()
      launched.set(name, process)
      pids[name] = process.pid
      const hopeless = (): string | undefined => {
        const ending = process.ending()
        return ending && `it ended while starting (${ending.how})`
      }
      await waitUntilReady({ isReady: prepared.isReady, limitMs: prepared.readyLimitMs, say, signal, hopeless })
      await prepared.afterReady?.()
      Object.assign(addresses, prepared.addresses)
    } catch (error) {
      throw describeFailure(name, error, logFile, logStart)
    }
  }
  const stop = async (): Promise<void> => {
    await Promise.all([...launched.values()].map(process => process.stop()))
  }
  const ports = openPortBook(dataDir)
  const starts = Object.keys(servers).map(name =>
    start(name, ports).catch(error => {
      failure.abort(error)
      throw error
    }),
  )
  const outcomes = await Promise.allSettled(starts)
  if (outcomes.some(outcome => outcome.status === 'rejected')) {
    await stop()
    throw options.signal.aborted ? options.signal.reason : failure.signal.reason
  }
  // A port book gives each port once; a new one finds those of before free again.
  const restart = (name: string): Promise<void> => start(name, openPortBook(dataDir, { isFixed: true }))
  return { addresses, pids, restart, stop }
}

function describeFailure(name: string, error: unknown, logFile: string, logStart: number): Error {
  const why = error instanceof Error ? error.message : String(error)
  const written = existsSync(logFile) ? readFileSync(logFile).subarray(logStart).toString().trimEnd() : ''
  const tail = written.split('\n').slice(-LOG_TAIL_LINES)
  const quoted = written === '' ? 'Its log is empty.' : `The end of its log, ${logFile}:\n  ${tail.join('\n  ')}`
  return new Error(`${name} could not be started: ${why}\n${quoted}`, { cause: error })
}
