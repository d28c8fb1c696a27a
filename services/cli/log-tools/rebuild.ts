/**
 * `marketlog rebuild VIEW`: rebuilds a view from the log while the old one is read and written, then switches to it.
 *
 * How, and why that is safe: streams/live-view/rebuild-view.ts and streams/runner/table-rebuild.ts. One rebuild of a view at
 * a time, by a lease in Redis. Alerts keep no view but the role's own state: rebuild-alerts.ts.
 */
import { openWriter } from '#infra/clickhouse/clickhouse.ts'
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { holdWithin, openLease } from '#infra/redis/lease.ts'
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { rebuildLiveView } from '#streams/live-view/rebuild-view.ts'
import { rebuildTables } from '#streams/runner/table-rebuild.ts'
import { CommandFailure, exitCodes, messageOf } from '../command-failure.ts'
import { openProgress } from '../progress.ts'
import { type Output, write } from './output.ts'
import { rebuildAlerts } from './rebuild-alerts.ts'
import { type TableViewName, tableViewOf, type ViewName } from './views.ts'

const LEASE_MS = 10_000
const RENEW_EVERY_MS = 2_500

/** Rebuilds; prints the result. */
export async function rebuild(
  config: PlatformConfig,
  log: Log,
  name: ViewName,
  output: Output,
  signal: AbortSignal,
): Promise<void> {
  const progress = openProgress(process.stderr)
  const startedAt = performance.now()
  const onProgress = (step: string): void => progress.step(`rebuilding ${name}: ${step}`)
  try {
    const result = await carryOut(config, log, name, onProgress, signal)
    const seconds = Number(((performance.now() - startedAt) / 1000).toFixed(1))
    await write(output, `${JSON.stringify({ view: name, seconds, ...result })}\n`)
  } catch (error) {
    if (!signal.aborted) throw new CommandFailure(`${name} is as it was: ${messageOf(error)}`, exitCodes.failed, error)
    throw new CommandFailure(`stopped; ${name} is as it was`, exitCodes.stoppedBySignal)
  } finally {
    progress.stop()
  }
}

async function carryOut(
  config: PlatformConfig,
  log: Log,
  name: ViewName,
  onProgress: (step: string) => void,
  signal: AbortSignal,
): Promise<object> {
  if (name === 'live-view') return { partitions: await rebuildLiveView(config, log, onProgress) }
  if (name === 'alerts') return rebuildAlerts(config, log, onProgress, signal)
  return rebuildTableView(config, log, name, onProgress, signal)
}

async function rebuildTableView(
  config: PlatformConfig,
  log: Log,
  name: TableViewName,
  onProgress: (step: string) => void,
  signal: AbortSignal,
) {
  const kafka = connectKafka({ config, role: 'rebuild', log })
  const writer = openWriter(config.servers.clickhouse, { database: databaseName(config.namespace), name: 'rebuild' })
  const redis = await openRedis(config.servers.redis, { name: `${config.namespace}rebuild`, log })
  const lease = openLease(redis, `${config.namespace}rebuild:${name}`, LEASE_MS)
  const lost = new AbortController()
  const renew = async (): Promise<void> => {
    if (!(await lease.hold().catch(() => true))) lost.abort(new Error('another rebuild has taken over'))
  }
  let timer: NodeJS.Timeout | undefined
  let catalog: Promise<CatalogReader> | undefined
  const openCatalog = (): Promise<CatalogReader> => {
    catalog ??= openCatalogReader(kafka)
    return catalog
  }
  try {
    // A rebuild that was killed keeps its lease until it expires.
    if (!(await holdWithin(lease, LEASE_MS + RENEW_EVERY_MS))) throw new Error('another rebuild of it goes on')
    timer = setInterval(renew, RENEW_EVERY_MS)
    const view = await tableViewOf(name)
    const parts = { view, kafka, writer, log, metrics: openMetrics(), catalog: openCatalog }
    return await rebuildTables(parts, onProgress, AbortSignal.any([signal, lost.signal]))
  } finally {
    clearInterval(timer)
    await lease.release().catch(() => undefined)
    await (await catalog?.catch(() => undefined))?.close()
    await closeRedis(redis)
    await writer.close()
  }
}
