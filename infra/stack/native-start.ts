/**
 * Starts servers natively, all at once, and on request starts again what ends by itself later, on its port and with its data.
 *
 * Writes logs, pids, ports and secrets in the data directory. Invariant: either all of them answer, or everything
 * started here has ended and the error names the server, the cause and the end of its log. States of a server that is kept:
 * running -> ended -> (starting -> failed -> pausing)* -> running, or given up; pauses grow and are bounded.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import pRetry, { type Options as RetryOptions } from 'p-retry'
import type { ServerAddresses } from '#infra/runtime/config.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import { cacheDirectory } from './downloads.ts'
import { type LaunchedProcess, launch, rotateLog } from './launch.ts'
import { prepareClickhouse } from './native/clickhouse.ts'
import { prepareKafka } from './native/kafka.ts'
import type { NativeContext, PrepareServer } from './native/native-server.ts'
import { preparePostgres } from './native/postgres.ts'
import { prepareRedis } from './native/redis.ts'
import { prepareSchemaRegistry } from './native/schema-registry.ts'
import { openPortBook, type PortBook } from './ports.ts'
import { waitUntilReady } from './readiness.ts'
import { openSecretBook } from './secrets.ts'

/** The five servers, in the order in which they are started. */
export const NATIVE_SERVERS = {
  kafka: prepareKafka,
  schemaRegistry: prepareSchemaRegistry,
  redis: prepareRedis,
  clickhouse: prepareClickhouse,
  postgres: preparePostgres,
} satisfies Record<string, PrepareServer>

export type ServerName = keyof typeof NATIVE_SERVERS

export interface ProvideOptions {
  dataDir: string
  environment: Record<string, string | undefined>
  say: (line: string) => void
  signal?: AbortSignal
  /** Has servers that end by themselves started again, and is called once for one that does not come back. */
  onLost?: (name: string, error: Error) => void
}

export interface StartedServers {
  addresses: Partial<ServerAddresses>
  stop(): Promise<void>
}

export type NativeServers = Awaited<ReturnType<typeof startNative>>

const LOG_TAIL_LINES = 20
const GRACE_MS = 15_000
const READY_LIMIT_MS = 90_000
const FIRST_PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 15_000
/** As long as roles wait for a server. */
const GIVE_UP_AFTER_MS = 10 * MINUTE_MS

/** Starts servers by name; the first failure ends all of them. */
export async function startNative(
  options: ProvideOptions & { signal: AbortSignal },
  servers: Readonly<Record<string, PrepareServer>>,
  { firstPauseMs = FIRST_PAUSE_MS, giveUpAfterMs = GIVE_UP_AFTER_MS } = {},
) {
  const { dataDir, environment } = options
  const failure = new AbortController()
  const signal = AbortSignal.any([options.signal, failure.signal])
  const shared = {
    dataDir,
    environment,
    cacheDir: resolve(cacheDirectory(environment)),
    secret: openSecretBook(dataDir),
    signal,
  }
  const addresses: Partial<ServerAddresses> = {}
  const launched = new Map<string, LaunchedProcess>()
  const waiting = new Set(Object.keys(servers))

  const start = async (name: string, port: PortBook): Promise<void> => {
    const prepare = servers[name]
    if (prepare === undefined) throw new Error(`${name} is not run here`)
    const logFile = join(dataDir, 'logs', `${name}.log`)
    const context = { ...shared, port, logFile, say: (line: string) => options.say(`${name}: ${line}`) }
    Object.assign(addresses, await startServer(name, prepare, context, launched))
    waiting.delete(name)
    if (waiting.size > 0) options.say(`waiting for ${[...waiting].join(', ')}`)
  }
  const ports = openPortBook(dataDir)
  const starts = Object.keys(servers).map(name =>
    start(name, ports).catch(error => {
      failure.abort(error)
      throw error
    }),
  )
  const stop = async (): Promise<void> => {
    await Promise.all([...launched.values()].map(process => process.stop()))
  }
  const outcomes = await Promise.allSettled(starts)
  if (outcomes.some(outcome => outcome.status === 'rejected')) {
    await stop()
    throw options.signal.aborted ? options.signal.reason : failure.signal.reason
  }
  // A port book gives each port once; a new one finds those of before free again.
  const restart = (name: string): Promise<void> => start(name, openPortBook(dataDir, { isFixed: true }))

  const stopping = new AbortController()
  const over = AbortSignal.any([signal, stopping.signal])
  const retries = { signal: over, minTimeout: firstPauseMs, maxRetryTime: giveUpAfterMs }
  const kept = options.onLost ? Object.keys(servers).map(name => keep(name, launched, restart, options, retries)) : []
  return {
    addresses,
    /** Starts a server again that has ended by itself; rejects when it does not answer where it did. */
    restart,
    get pids(): Readonly<Record<string, number>> {
      return Object.fromEntries([...launched].map(([name, { pid }]) => [name, pid]))
    },
    async stop(): Promise<void> {
      stopping.abort()
      await stop()
      await Promise.all(kept)
      // One that was being started again meanwhile.
      await stop()
    },
  }
}

async function startServer(
  name: string,
  prepare: PrepareServer,
  context: NativeContext,
  launched: Map<string, LaunchedProcess>,
): Promise<Partial<ServerAddresses>> {
  const { dataDir, logFile, signal } = context
  const logStart = rotateLog(logFile)
  try {
    const prepared = await prepare(context)
    signal.throwIfAborted()
    // One that was there before takes its note away as it ends.
    await launched.get(name)?.ended
    const process = launch({
      directory: dataDir,
      logFile,
      noteFile: join(dataDir, 'pids', `${name}.json`),
      stopSignal: 'SIGTERM' as const,
      graceMs: GRACE_MS,
      ...prepared.launch,
      environment: { PATH: context.environment.PATH ?? '', ...prepared.launch.environment },
    })
    launched.set(name, process)
    const hopeless = () => process.ending() && `it ended while starting (${process.ending()?.how})`
    await waitUntilReady({ isReady: prepared.isReady, limitMs: READY_LIMIT_MS, signal, hopeless })
    await prepared.afterReady?.()
    return prepared.addresses
  } catch (error) {
    throw describeFailure(name, error, logFile, logStart)
  }
}

/** Starts a server again whenever it has ended, until the signal, or until it is given up. */
async function keep(
  name: string,
  launched: ReadonlyMap<string, LaunchedProcess>,
  restart: NativeServers['restart'],
  { say, onLost }: ProvideOptions,
  retries: RetryOptions,
): Promise<void> {
  for (;;) {
    await launched.get(name)?.ended
    if (retries.signal?.aborted) return
    const endedAt = performance.now()
    say(`${name} has ended; starting it again`)
    try {
      await pRetry(() => restart(name), {
        ...retries,
        retries: Number.POSITIVE_INFINITY,
        maxTimeout: LONGEST_PAUSE_MS,
        onFailedAttempt: ({ error }) => say(error.message),
      })
    } catch (error) {
      if (!retries.signal?.aborted) onLost?.(name, error as Error)
      return
    }
    say(`${name} answers again after ${((performance.now() - endedAt) / 1_000).toFixed(1)} s`)
  }
}

function describeFailure(name: string, error: unknown, logFile: string, logStart: number): Error {
  const why = error instanceof Error ? error.message : String(error)
  const written = existsSync(logFile) ? readFileSync(logFile).subarray(logStart).toString().trimEnd() : ''
  const tail = written.split('\n').slice(-LOG_TAIL_LINES)
  const quoted = written === '' ? 'Its log is empty.' : `The end of its log, ${logFile}:\n  ${tail.join('\n  ')}`
  return new Error(`${name} could not be started: ${why}\n${quoted}`, { cause: error })
}
