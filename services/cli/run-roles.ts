/**
 * Runs roles in this process until the signal to stop: the composition root of the platform.
 *
 * States: starting -> running -> stopping -> ended. A role that fails, now or later, ends the process at once with
 * exit code 70 after a log line, or 69 where a server refuses it; that is safe since its work is uncommitted, and the supervisor
 * starts the process again. A stop ends new requests first, then the roles in reverse order of their start, all within one limit.
 */
import { once } from 'node:events'
import { flushCompileCache } from 'node:module'
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { checkAccess, refusalOf } from '#infra/kafka/refusal.ts'
import { openTopicIds } from '#infra/kafka/topic-ids.ts'
import { parseClickhouseAddress } from '#infra/runtime/clickhouse-address.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import { collectGarbage, countBuffersWithHeap, keepHeapSmall } from '#infra/runtime/heap.ts'
import { clientsOf, type HttpHost, openHttpHost } from '#infra/runtime/http-host.ts'
import type { Log } from '#infra/runtime/log.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import { parsePostgresAddress } from '#infra/runtime/postgres-address.ts'
import { addressOf } from '#infra/runtime/redis-settings.ts'
import { Refused } from '#infra/runtime/refused.ts'
import type { RoleContext, RunningRole } from '#infra/runtime/role.ts'
import { exitCodes } from './command-failure.ts'
import { isRoleThat, loadRole, type RoleName } from './roles.ts'
import { listenForStop } from './stop-signals.ts'

const STOP_LIMIT_MS = 20_000

/** Runs roles until a signal, or until the supervisor that started this process is gone; ends the process. */
export async function runProcess(
  roles: readonly RoleName[],
  config: PlatformConfig,
  log: Log,
  isSetUp: boolean,
): Promise<never> {
  const stop = listenForStop()
  process.once('disconnect', () => stop.abort(new Error('the supervisor is gone')))
  // A process that is refused before its roles run must end: the channel to its supervisor would keep it.
  process.channel?.unref()
  for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
    process.on(event, error => {
      log.fatal({ err: error }, 'a bug; the process ends')
      process.exit(exitCodes.bug)
    })
  }
  await Promise.all([checkAccess(connectKafka({ config, role: roles.join('-'), log })), checkStores(config)])
  if (!isSetUp) await (await import('./set-up.ts')).setUp(config, log)
  await runRoles(roles, config, log, stop.signal)
  // What was not closed must not keep a stopped process alive; the log names it.
  process.exit()
}

/**
 * Asks the stores that are reached by TLS once, before roles begin to wait for them: what is refused then, a certificate or a
 * password, is refused for good. A store that does not answer is none of that. One without TLS is not asked, so that a role
 * which needs no store loads no client of it.
 */
async function checkStores(config: PlatformConfig): Promise<void> {
  const { postgres, postgresDirect = postgres, clickhouse, clickhouseReadOnly } = config.servers
  const databases = [postgres, postgresDirect].filter(url => parsePostgresAddress(url).sslMode !== 'disable')
  const tables = [clickhouse, clickhouseReadOnly].filter(url => parseClickhouseAddress(url).isTls)
  const outcomes = await Promise.allSettled([
    ...[...new Set(databases)].map(async url => (await import('#infra/postgres/client.ts')).askPostgres(url)),
    ...[...new Set(tables)].map(async url => (await import('#infra/clickhouse/clickhouse.ts')).askClickhouse(url)),
    ...(addressOf(config).isTls ? [import('#infra/redis/access.ts').then(({ askRedis }) => askRedis(config))] : []),
  ])
  for (const outcome of outcomes)
    if (outcome.status === 'rejected' && outcome.reason instanceof Refused) throw outcome.reason
}

/** Starts the roles, serves until the signal aborts, stops them; resolves when all have stopped. */
async function runRoles(
  roles: readonly RoleName[],
  config: PlatformConfig,
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  const fail = (role: string, error: unknown): never => {
    const refusal = refusalOf(error)
    if (refusal !== undefined) log.fatal({ role }, `${role} cannot go on: ${refusal}`)
    else log.fatal({ role, err: error }, `${role} cannot go on; the process ends`)
    return process.exit(refusal === undefined ? exitCodes.bug : exitCodes.serverUnavailable)
  }
  const load = async (name: RoleName) => ({ name, start: await loadRole(name).catch(error => fail(name, error)) })
  const rooms = await Promise.all(roles.map(load))
  // What was compiled is kept now (main.ts), since V8 uses it only under the flags that it was kept under.
  flushCompileCache()
  if (roles.every(role => isRoleThat('holdsClients', role))) keepHeapSmall()
  if (roles.includes('api')) countBuffersWithHeap()
  const metrics = openMetrics()
  const http = openHttpHost({
    host: config.host,
    port: config.port,
    metrics,
    clients: clientsOf(config),
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
    signal,
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
        if (!signal.aborted) fail(name, error)
      }
    }),
  )
  // What the heap may grow to follows from what it holds at its last collection.
  collectGarbage()
  const ports = await http.listen().catch(error => fail('http', error))
  log.info({ roles, port: ports.port, operator_port: ports.operatorPort }, 'all roles have started')
  process.send?.(ports)
  // A pending promise alone would not keep the process alive.
  const alive = setInterval(() => {}, 60_000)
  if (!signal.aborted) await once(signal, 'abort')
  clearInterval(alive)
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

/** Opens at the first request, for all that ask. */
export function openShared<T extends { close(): Promise<void> }>(
  open: () => Promise<T>,
): { get(): Promise<T>; close(): Promise<void> } {
  let opened: Promise<T> | undefined
  return {
    get() {
      opened ??= open()
      return opened
    },
    close: async () => (await opened?.catch(() => undefined))?.close(),
  }
}
