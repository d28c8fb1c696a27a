/**
 * Rebuilds the tables of a view from the log, beside the old ones, and exchanges them.
 *
 * The same sinks write into `<table>_shadow_<rebuild>` as the role writes into the tables. Writing the log again into the tables
 * themselves would not do: views merge, so a wrong row, or one too many, would stay. Rows that come from records
 * that the log no longer holds cannot be derived again and are carried over as they are. Reads and the role go on
 * all the while. Invariant: a kill at any moment leaves the old tables, or the new ones, with positions that hold for them
 * (table-switch.ts); shadows that it leaves are dropped by the next rebuild.
 */
import { randomBytes } from 'node:crypto'
import { type ClickhouseWriter, openWriter } from '#infra/clickhouse/clickhouse.ts'
import { setUpClickhouse } from '#infra/clickhouse/set-up-tables.ts'
import { createTable, onCluster } from '#infra/clickhouse/table.ts'
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { openTopicIds } from '#infra/kafka/topic-ids.ts'
import { holdWithin, openLease } from '#infra/redis/lease.ts'
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { type LogParts, readPartitionLog } from './partition-log.ts'
import { assertNoLoss, mergeVersion, type Source } from './positions.ts'
import { type Reached, type SweepParts, sweep } from './table-sweep.ts'
import { fence, type RebuiltSource, rebuilt, settle, shadowOf, shadowsOf, switchTables } from './table-switch.ts'
import type { RebuildTask, TableView, ViewTable } from './view.ts'
import { countsFor, readViewPositions, sourceName, sourcesOf, viewPositions } from './view-positions.ts'

/** The result of a rebuild. */
interface Rebuilt {
  records: number
  /** Rows carried over, since the log no longer holds what they rest on. */
  carried: number
}

const CAUGHT_UP = 2_000
const ROUNDS = 20
const LEASE_MS = 10_000
const RENEW_EVERY_MS = 2_500

/** Rebuilds a view; one rebuild of it at a time, by a lease in Redis. */
export async function rebuildTableView(view: TableView, task: RebuildTask): Promise<Rebuilt> {
  const { config, log, signal } = task
  const kafka = connectKafka({ config, role: 'rebuild', log })
  const writer = openWriter(config.servers.clickhouse, { database: databaseName(config.namespace), name: 'rebuild' })
  const redis = await openRedis(config, { name: `${config.namespace}rebuild`, log })
  const lease = openLease(redis, `${config.namespace}rebuild:${view.name}`, LEASE_MS)
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
  const reader = await openRangeReader(kafka, view.topics.map(kafka.topicName))
  const ids = openTopicIds(kafka)
  try {
    // A rebuild that was killed keeps its lease until it expires.
    if (!(await holdWithin(lease, LEASE_MS + RENEW_EVERY_MS))) throw new Error('another rebuild of it goes on')
    timer = setInterval(renew, RENEW_EVERY_MS)
    const parts = { view, kafka, reader, ids, writer, metrics: openMetrics(), catalog: openCatalog }
    return await rebuildTables(parts, { ...task, signal: AbortSignal.any([signal, lost.signal]) })
  } finally {
    clearInterval(timer)
    await lease.release().catch(() => undefined)
    await (await catalog?.catch(() => undefined))?.close()
    await ids.close()
    await reader.close()
    await closeRedis(redis)
    await writer.close()
  }
}

/** What a rebuild works with. */
interface RebuildParts extends Omit<SweepParts, 'generationOf'>, LogParts {}

/** Rebuilds; `onProgress` gets each step. */
async function rebuildTables(parts: RebuildParts, { onProgress, signal, acceptLoss }: RebuildTask): Promise<Rebuilt> {
  const { view, writer } = parts
  const rebuild = randomBytes(6).toString('hex')
  await setUpClickhouse(writer, [viewPositions, ...view.tables.map(({ table }) => table)])
  const sources = await readSources(parts)
  for (const { stored, log } of sources) assertNoLoss(view.name, stored, log, acceptLoss)
  const generations = new Map(sources.map(one => [sourceName(one.source), rebuilt(one, 0, rebuild).generation ?? 0]))
  const generationOf = (source: Source): number => generations.get(sourceName(source)) ?? 0
  try {
    onProgress('making empty tables')
    for (const { table } of view.tables) {
      await dropShadows(writer, table.name)
      const shadow = { ...table, name: shadowOf(table.name, rebuild) }
      await writer.command(createTable(writer.database, shadow, writer.cluster))
    }
    const starts = startsOf(sources)
    onProgress('carrying over what the log no longer holds')
    let carried = 0
    for (const table of view.tables)
      carried += await carryOver(writer, table, rebuild, versionsOf(sources, generationOf))
    const shadow = { ...parts, writer: intoShadows(writer, rebuild), generationOf }
    let { reached, records } = await sweep(shadow, starts, taken => {
      signal.throwIfAborted()
      onProgress(`reading the log: ${taken.toLocaleString('en')} records`)
    })
    // What came meanwhile, until there is little left that readers could miss for a moment.
    for (let round = 0, last = Number.POSITIVE_INFINITY; round < ROUNDS; round++) {
      signal.throwIfAborted()
      const more = await sweep(shadow, reached)
      reached = more.reached
      records += more.records
      // A round that had no less to read than the one before: it will not get shorter than this.
      if (more.records < CAUGHT_UP || more.records >= last) break
      last = more.records
    }
    onProgress('switching')
    const fenced = await fence(writer, view, rebuild, sources)
    // What its role wrote before it was fenced is in the log by now.
    const last = await sweep(shadow, reached)
    await switchTables(writer, view, rebuild)
    await settle(writer, view, fenced, last.reached)
    return { records: records + last.records, carried }
  } finally {
    // After a switch they hold the old rows, before one an unfinished view.
    for (const { table } of view.tables) await dropShadows(writer, table.name)
  }
}

/** Reads each partition of the log beside what is stored of it. */
async function readSources(parts: RebuildParts): Promise<RebuiltSource[]> {
  const { view, writer } = parts
  const now = await readViewPositions(writer)
  const present = now.tablesOf(view)
  return Promise.all(
    sourcesOf(view).map(async source => {
      const found = now.of(view.name, source)
      const stored = found !== undefined && countsFor(found, view, present) ? found.position : undefined
      const log = await readPartitionLog(parts, source, undefined)
      return { source, stored, former: found?.position, log }
    }),
  )
}

function startsOf(sources: readonly RebuiltSource[]): Reached {
  const starts: Reached = {}
  for (const { source, log } of sources) {
    const own = starts[source.topic] ?? []
    own[source.partition] = log.start
    starts[source.topic] = own
  }
  return starts
}

/** Those of killed rebuilds too. One that still lives has lost its lease: it fails, and the tables stay as they are. */
async function dropShadows(writer: ClickhouseWriter, table: string): Promise<void> {
  const found = await writer.rows<{ name: string }>(
    'SELECT name FROM system.tables WHERE database = {database:String} AND startsWith(name, {start:String})',
    { database: writer.database, start: shadowsOf(table) },
  )
  for (const { name } of found)
    await writer.command(`DROP TABLE IF EXISTS ${writer.database}.${name}${onCluster(writer.cluster)} SYNC`)
}

const intoShadows = (writer: ClickhouseWriter, rebuild: string): ClickhouseWriter => ({
  ...writer,
  insert: given => writer.insert({ ...given, table: shadowOf(given.table, rebuild) }),
})

/** The version of the first record that the log holds, by topic and partition. */
const versionsOf = (sources: readonly RebuiltSource[], generationOf: (source: Source) => number): Reached => {
  const starts = startsOf(sources)
  for (const { source, log } of sources) {
    const own = starts[source.topic] as number[]
    own[source.partition] = mergeVersion({ generation: generationOf(source) }, log.start)
  }
  return starts
}

/** Copies the rows that rest on expired records, partition by partition of the table. */
async function carryOver(
  writer: ClickhouseWriter,
  { table, origins }: ViewTable,
  rebuild: string,
  starts: Reached,
): Promise<number> {
  const conditions = origins.flatMap(({ topic, partition, isBefore }) => {
    const first = starts[topic] ?? []
    return first.some(version => version > 0) ? [`(${isBefore(`[${first.join(', ')}][${partition} + 1]`)})`] : []
  })
  if (conditions.length === 0) return 0
  // By name: the table may have columns of a newer version.
  const columns = Object.keys(table.columns).join(', ')
  const [live, shadow] = [table.name, shadowOf(table.name, rebuild)].map(name => `${writer.database}.${name}`)
  const parts = await writer.rows<{ id: string }>(`SELECT DISTINCT _partition_id AS id FROM ${live}`)
  for (const { id } of parts) {
    await writer.command(
      `INSERT INTO ${shadow} (${columns}) SELECT ${columns} FROM ${live} WHERE _partition_id = '${id}' AND (${conditions.join(' OR ')})`,
    )
  }
  const [row] = await writer.rows<{ rows: number }>(`SELECT count() AS rows FROM ${shadow}`)
  return row?.rows ?? 0
}
