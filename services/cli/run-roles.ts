/**
 * Runs roles in this process until the signal to stop: the composition root of the platform.
 *
 * States: starting -> running -> stopping -> ended. A role that fails, now or later, ends the process at once with
 * exit code 70 after a log line, or 69 where a server refuses it; that is safe since its work is uncommitted, and the supervisor
 * starts the process again. A stop ends new requests first, then the roles in reverse order of their start, all within one limit.
 */
import { flushCompileCache } from 'node:module'
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { refusalOf } from '#infra/kafka/refusal.ts'
import { openTopicIds } from '#infra/kafka/topic-ids.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import { collectGarbage, countBuffersWithHeap, keepHeapSmall } from '#infra/runtime/heap.ts'
import { clientsOf, type HostPorts, type HttpHost, openHttpHost } from '#infra/runtime/http-host.ts'
import type { Log } from '#infra/runtime/log.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import type { RoleContext, RunningRole } from '#infra/runtime/role.ts'
import { exitCodes } from './command-failure.ts'
import { HOLDING_ROLES, loadRole, type RoleName } from './roles.ts'
import { openShared } from './shared.ts'

export interface RunOptions {
  roles: readonly RoleName[]
  config: PlatformConfig
  log: Log
  /** Called once all roles have started and the process listens. */
  onListening?: (ports: HostPorts) => void
  /** Begins the stop. */
  signal: AbortSignal
  /** Ends the process; given, because only main may. */
  exit: (code: number) => never
}

const STOP_LIMIT_MS = 20_000

/** Starts the roles, serves until the signal aborts, stops them; resolves when all have stopped. */
export async function runRoles(options: RunOptions): Promise<void> {
  const { config, log, roles } = options
  const fail = (role: string, error: unknown): never => {
    const refusal = refusalOf(error)
    if (refusal !== undefined) {
      log.fatal({ role }, `${role} cannot go on: ${refusal}`)
      return options.exit(exitCodes.serverUnavailable)
    }
    log.fatal({ role, err: error }, `${role} cannot go on; the process ends`)
    return options.exit(exitCodes.bug)
  }
  const load = async (name: RoleName) => ({ name, start: await loadRole(name).catch(error => fail(name, error)) })
  const rooms = await Promise.all(roles.map(load))
  // What was compiled is kept now (main.ts), since V8 uses it only under the flags that it was kept under.
  flushCompileCache()
  if (roles.every(role => HOLDING_ROLES.includes(role))) keepHeapSmall()
  if (roles.includes('api')) countBuffersWithHeap()
  const metrics = openMetrics()
  const http = openHttpHost({
    ...{ host: config.host, port: config.port, metrics, clients: clientsOf(config) },
    operator: { host: config.operatorHost, port: config.operatorPort },
  })
  const connect = (role: string) => connectKafka({ config, role, log })
  const ids = openShared(async () => openTopicIds(connect('topic-ids')))
  const catalog = openShared(async () =>
    openCatalogReader(connect('catalog'), { ids: await ids.get(), onLost: error => fail('catalog', error) }),
  )
  const started: RunningRole[] = []
  const contextOf = (role: string): RoleContext => ({
    config,
    log: log.child({ role }),
    metrics,
    http,
    signal: options.signal,
    fail: error => fail(role, error),
    stopped: reason => {
      if (roles.length === 1) fail(role, reason)
    },
    topicIds: ids.get,
    catalog: catalog.get,
  })
  await Promise.all(
    rooms.map(async ({ name, start }, order) => {
      try {
        const role = await start(contextOf(name))
        started[order] = role
        http.watch(name, () => role.ready())
      } catch (error) {
        if (!options.signal.aborted) fail(name, error)
      }
    }),
  )
  // What the heap may grow to follows from what it holds at its last collection.
  collectGarbage()
  const ports = await http.listen().catch(error => fail('http', error))
  log.info({ roles, port: ports.port, operator_port: ports.operatorPort }, 'all roles have started')
  options.onListening?.(ports)
  await aborted(options.signal)
  log.info({ roles }, 'stopping')
  const limit = setTimeout(() => fail('stop', new Error(`not stopped within ${STOP_LIMIT_MS} ms`)), STOP_LIMIT_MS)
  await stopAll(http, started, log)
  await catalog.close()
  await ids.close()
  clearTimeout(limit)
  log.info({ roles, leftOpen: process.getActiveResourcesInfo().filter(name => name.endsWith('Wrap')) }, 'stopped')
}

/** New requests are refused first; the host can close only after the roles have ended their open streams. */
async function stopAll(http: HttpHost, started: readonly RunningRole[], log: Log): Promise<void> {
  const closing = http.close()
  for (const role of [...started].reverse()) {
    if (role === undefined) continue
    const startedAt = performance.now()
    await role.stop()
    log.info({ role: role.name, ms: Math.round(performance.now() - startedAt) }, 'role stopped')
  }
  await closing
}

/** Resolves when the signal aborts. */
function aborted(signal: AbortSignal): Promise<void> {
  return new Promise(resolve => {
    if (signal.aborted) return resolve()
    // A pending promise alone would not keep the process alive.
    const alive = setInterval(() => {}, 60_000)
    signal.addEventListener(
      'abort',
      () => {
        clearInterval(alive)
        resolve()
      },
      { once: true },
    )
  })
}
