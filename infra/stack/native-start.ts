/**
 * Starts servers natively, all at once, and on request starts again what ends by itself later, on its port and with its data.
 *
 * Writes logs, pids, ports and secrets in the data directory. Invariant: either all of them answer, or everything
 * started here has ended and the error names the server, the cause and the end of its log. States of a server that is kept:
 * running -> ended -> (starting -> failed -> pausing)* -> running, or given up; pauses grow and are bounded.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import type { ServerAddresses } from '#infra/runtime/config.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
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

export interface NativeServers extends StartedServers {
  /** By name, as of now. */
  readonly pids: Readonly<Record<string, number>>
  /** Starts a server again that has ended by itself; rejects when it does not answer where it did. */
  restart(name: string): Promise<void>
}

const LOG_TAIL_LINES = 20
const FIRST_PAUSE_MS = 1_000
const LONGEST_PAUSE_MS = 15_000
/** As long as roles wait for a server. */
const GIVE_UP_AFTER_MS = 10 * MINUTE_MS

/** Starts servers by name; the first failure ends all of them. */
export async function startNative(
  options: ProvideOptions & { signal: AbortSignal },
  servers: Readonly<Record<string, PrepareServer>>,
  { firstPauseMs = FIRST_PAUSE_MS, giveUpAfterMs = GIVE_UP_AFTER_MS } = {},
): Promise<NativeServers> {
  const { dataDir, environment, onLost } = options
  const failure = new AbortController()
  const signal = AbortSignal.any([options.signal, failure.signal])
  const secret = openSecretBook(dataDir)
  const addresses: Partial<ServerAddresses> = {}
  const pids: Record<string, number> = {}
  const launched = new Map<string, LaunchedProcess>()
  const waiting = new Set(Object.keys(servers))

  const start = async (name: string, port: PortBook): Promise<void> => {
    const prepare = servers[name]
    if (prepare === undefined) throw new Error(`${name} is not run here`)
    const logFile = join(dataDir, 'logs', `${name}.log`)
    const logStart = rotateLog(logFile)
    const say = (line: string) => options.say(`${name}: ${line}`)
    const cacheDir = resolve(cacheDirectory(environment))
    try {
      const prepared = await prepare({ dataDir, environment, cacheDir, port, secret, signal, say, logFile })
      signal.throwIfAborted()
      // One that was there before takes its note away as it ends.
      await launched.get(name)?.ended
      const noteFile = join(dataDir, 'pids', `${name}.json`)
      const process = launch({ directory: dataDir, logFile, noteFile, ...prepared.launch })
      launched.set(name, process)
      pids[name] = process.pid
      const hopeless = (): string | undefined => {
        const ending = process.ending()
        return ending && `it ended while starting (${ending.how})`
      }
      await waitUntilReady({ isReady: prepared.isReady, limitMs: prepared.readyLimitMs, signal, hopeless })
      await prepared.afterReady?.()
      Object.assign(addresses, prepared.addresses)
    } catch (error) {
      throw describeFailure(name, error, logFile, logStart)
    }
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
  const keep = async (name: string, lost: (name: string, error: Error) => void): Promise<void> => {
    const over = AbortSignal.any([signal, stopping.signal])
    for (;;) {
      await launched.get(name)?.ended
      if (over.aborted) return
      const failed = await startAgain(name, { restart, say: options.say, over, firstPauseMs, giveUpAfterMs })
      if (failed) return lost(name, failed)
    }
  }
  const kept = onLost ? Object.keys(servers).map(name => keep(name, onLost)) : []
  return {
    ...{ addresses, pids, restart },
    async stop() {
      stopping.abort()
      await stop()
      await Promise.all(kept)
      // One that was being started again meanwhile.
      await stop()
    },
  }
}

/** Starts a server that has ended; resolves with the last failure when it is given up. */
async function startAgain(
  name: string,
  {
    restart,
    say,
    over,
    firstPauseMs,
    giveUpAfterMs,
  }: Pick<NativeServers, 'restart'> &
    Pick<ProvideOptions, 'say'> & { over: AbortSignal; firstPauseMs: number; giveUpAfterMs: number },
): Promise<Error | undefined> {
  const endedAt = performance.now()
  say(`${name} has ended; starting it again`)
  for (let pauseMs = firstPauseMs; !over.aborted; pauseMs = Math.min(LONGEST_PAUSE_MS, 2 * pauseMs)) {
    try {
      await restart(name)
      say(`${name} answers again after ${((performance.now() - endedAt) / 1_000).toFixed(1)} s`)
      return undefined
    } catch (error) {
      if (over.aborted) return undefined
      if (performance.now() - endedAt > giveUpAfterMs) return error as Error
      say(`${(error as Error).message}\n${name} is started again in ${pauseMs / 1_000} s`)
      await pause(pauseMs, undefined, { signal: over }).catch(() => undefined)
    }
  }
  return undefined
}

function describeFailure(name: string, error: unknown, logFile: string, logStart: number): Error {
  const why = error instanceof Error ? error.message : String(error)
  const written = existsSync(logFile) ? readFileSync(logFile).subarray(logStart).toString().trimEnd() : ''
  const tail = written.split('\n').slice(-LOG_TAIL_LINES)
  const quoted = written === '' ? 'Its log is empty.' : `The end of its log, ${logFile}:\n  ${tail.join('\n  ')}`
  return new Error(`${name} could not be started: ${why}\n${quoted}`, { cause: error })
}
