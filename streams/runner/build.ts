/**
 * Builds a version of a view in ClickHouse and makes it the one that is read: at the first start, by `rebuild`, after a change of the
 * tables' form, and where a table is lost.
 *
 * The view's own sinks write the log into tables that nobody reads; rows that rest on records which the log no longer holds are carried
 * over from the version before. States: filling -> caught up -> read -> handed over (the version is followed until its role has taken
 * note of it, so that readers never go back in time) -> the version before is dropped. Invariant: a kill leaves the version before in
 * place, and tables that nobody reads, which the next build drops; one build of a view goes on at a time, by a lease in Redis, and one
 * that was paused beyond its lease finds its tables dropped or the pointer moved.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { openBatcher } from '#infra/clickhouse/batcher.ts'
import { type ClickhouseWriter, openWriter } from '#infra/clickhouse/clickhouse.ts'
import { setUpClickhouse } from '#infra/clickhouse/set-up-tables.ts'
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import type { Codec } from '#infra/kafka/codec.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { openPublisher, type Publisher } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { openTopicIds } from '#infra/kafka/topic-ids.ts'
import { type ScannedRecord, scanTopic } from '#infra/kafka/topic-scan.ts'
import { holdWithin, openLease } from '#infra/redis/lease.ts'
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import { Refused } from '#infra/runtime/refused.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { type DeadLetters, openDeadLetters } from './dead-letters.ts'
import { foldRecord } from './group-loop.ts'
import type { Outcome } from './outcome.ts'
import { type LogParts, readPartitionLog } from './partition-log.ts'
import {
  assertNoLoss,
  mergeVersion,
  type PartitionLog,
  rebuiltPosition,
  type Source,
  type ViewPosition,
} from './positions.ts'
import type { RowSink } from './sink-runner.ts'
import {
  Conflict,
  createVersion,
  dropOthers,
  intoVersion,
  isOfForm,
  positionOf,
  readStoredViews,
  type StoredView,
  sourceName,
  sourcesOf,
  switchTo,
  tableOf,
  type Version,
  viewPositions,
  writePositions,
} from './table-versions.ts'
import { adviceOn } from './unknown-events.ts'
import type { RebuildTask, TableView, ViewTable } from './view.ts'

interface TableBuild extends RebuildTask {
  /** Builds one only where there is none of the declared form. */
  isMissingOnly?: boolean
}

/** The result of a build. */
export interface Built {
  version: string
  records: number
  /** Rows carried over, since the log no longer holds what they rest on. */
  carried: number
}

const CAUGHT_UP = 2_000
const ROUNDS = 20
const LEASE_MS = 10_000
const RENEW_EVERY_MS = 2_500
const LULL_MS = 100
/** Readers ask for the version once a second, its role every two seconds. */
const HANDED_OVER_MS = 3_000

/** Builds a version of a view and switches to it; undefined where one was wanted only if it is missing, and is not. */
export async function buildTables(
  view: TableView,
  task: TableBuild & { isMissingOnly: true },
): Promise<Built | undefined>
export async function buildTables(view: TableView, task: TableBuild): Promise<Built>
export async function buildTables(view: TableView, task: TableBuild): Promise<Built | undefined> {
  return withBuildParts(view, task, (parts, signal) => build(parts, { ...task, signal }))
}

/** Works on versions of a view while it holds the lease for that; the signal aborts where it is lost. */
export async function withBuildParts<T>(
  view: TableView,
  { config, log, signal }: Pick<RebuildTask, 'config' | 'log' | 'signal'>,
  work: (parts: BuildParts, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const kafka = connectKafka({ config, role: 'build', log })
  const writer = openWriter(config.servers.clickhouse, { database: databaseName(config.namespace), name: 'build' })
  const redis = await openRedis(config, { name: `${config.namespace}build`, log })
  const lease = openLease(redis, `${config.namespace}build:${view.name}`, LEASE_MS)
  const lost = new AbortController()
  const renew = async (): Promise<void> => {
    if (!(await lease.hold().catch(() => true))) lost.abort(new Error('another build has taken over'))
  }
  let timer: NodeJS.Timeout | undefined
  let catalog: Promise<CatalogReader> | undefined
  const openCatalog = (): Promise<CatalogReader> => {
    catalog ??= openCatalogReader(kafka)
    return catalog
  }
  const reader = await openRangeReader(kafka, view.topics.map(kafka.topicName))
  const publisher = await openPublisher(kafka, 'runner')
  const ids = openTopicIds(kafka)
  try {
    // A build that was killed keeps its lease until it expires.
    if (!(await holdWithin(lease, LEASE_MS + RENEW_EVERY_MS))) throw new Error('another build of it goes on')
    timer = setInterval(renew, RENEW_EVERY_MS)
    const parts = { view, kafka, reader, ids, writer, publisher, catalog: openCatalog }
    return await work(parts, AbortSignal.any([signal, lost.signal]))
  } finally {
    clearInterval(timer)
    await lease.release().catch(() => undefined)
    await (await catalog?.catch(() => undefined))?.close()
    await ids.close()
    await publisher.close()
    await reader.close()
    await closeRedis(redis)
    await writer.close()
  }
}

export interface BuildParts extends LogParts {
  view: TableView
  writer: ClickhouseWriter
  publisher: Publisher
  catalog: () => Promise<CatalogReader>
}

/** A partition of the log, what the version before reflects of it, and where the new version is. */
export interface BuildSource {
  source: Source
  stored: ViewPosition | undefined
  log: PartitionLog
  position: ViewPosition
}

async function build(
  parts: BuildParts,
  { onProgress, signal, acceptLoss, isMissingOnly }: TableBuild,
): Promise<Built | undefined> {
  const { view, writer, kafka } = parts
  await setUpClickhouse(writer, [viewPositions])
  const before = (await readStoredViews(writer)).of(view.name)
  if (isMissingOnly && isOfForm(view, before.current)) return undefined
  const sources = await readSources(parts, before)
  for (const { source, stored, log } of sources) {
    if (before.current) assertNoLoss(view.name, stored, log, acceptLoss)
    else if (log.start > 0)
      kafka.log.warn({ ...source, records: log.start }, 'it is built without records that the log no longer holds')
  }
  await dropOthers(writer, view, before.named)
  onProgress('making empty tables')
  const version = await createVersion(writer, view)
  onProgress('carrying over what the log no longer holds')
  const carried = before.current ? await carryOver(writer, view, before.current, version, sources) : 0
  const filling = await openFilling(parts, version, sources)
  try {
    await catchUp(filling, records => {
      signal.throwIfAborted()
      onProgress(`reading the log: ${records.toLocaleString('en')} records`)
    })
    onProgress('switching')
    signal.throwIfAborted()
    const reached = [...filling.sources.values()]
    const positions = reached.map(({ source, position }) => ({ version, source, position, after: 0 }))
    const refused = await writePositions(writer, view.name, positions)
    if (refused.length > 0) throw new Conflict(`positions of the new version of ${view.name} could not be written`)
    await switchTo(writer, view.name, version, before)
    const limit = performance.now() + (before.current ? HANDED_OVER_MS : 0)
    while (performance.now() < limit) {
      await pause(LULL_MS)
      await sweep(filling)
    }
  } finally {
    await filling.close()
  }
  await dropOthers(writer, view, version)
  return { version: version.id, records: filling.records, carried }
}

export async function readSources(parts: BuildParts, before: StoredView): Promise<BuildSource[]> {
  return Promise.all(
    sourcesOf(parts.view).map(async source => {
      const stored = positionOf(before, source)?.position
      const log = await readPartitionLog(parts, source, undefined)
      return { source, stored, log, position: rebuiltPosition(stored, log, log.start) }
    }),
  )
}

/** A version that is being filled through the view's own sinks. */
export interface Filling {
  parts: BuildParts
  /** By the name of their partition. */
  sources: ReadonlyMap<string, BuildSource & { sink: RowSink }>
  letters: DeadLetters
  records: number
  close(): Promise<void>
}

/** Begins to fill a version from the positions of its sources. */
export async function openFilling(
  parts: BuildParts,
  version: Version,
  sources: readonly BuildSource[],
): Promise<Filling> {
  const { view, kafka, catalog } = parts
  const metrics = openMetrics()
  const batcher = openBatcher(parts.writer, { metrics, longestWaitMs: LULL_MS })
  const opened = new Map<string, BuildSource & { sink: RowSink }>()
  for (const each of sources) {
    const sink = await view.open(each.source.topic, intoVersion(batcher, version), catalog)
    opened.set(sourceName(each.source), { ...each, sink })
  }
  return {
    ...{ parts, sources: opened, records: 0 },
    letters: openDeadLetters({ group: view.name, codec: kafka.codec, metrics, log: kafka.log }),
    close: () => batcher.close(),
  }
}

/** Reads until there is little left that readers could miss for a moment. */
async function catchUp(filling: Filling, onProgress: (records: number) => void): Promise<void> {
  let last = Number.POSITIVE_INFINITY
  for (let round = 0; round < ROUNDS; round++) {
    const read = await sweep(filling, { onProgress })
    // A round that had no less to read than the one before: it will not get shorter than this.
    if (read < CAUGHT_UP || read >= last) return
    last = read
  }
}

/** Reads each partition to an end, the stable end of now when left out; resolves with the records that were read. */
export async function sweep(
  filling: Filling,
  {
    onProgress,
    endOf,
  }: { onProgress?: (records: number) => void; endOf?: (source: BuildSource) => Promise<number> } = {},
): Promise<number> {
  const { view, kafka, reader } = filling.parts
  const before = filling.records
  for (const topic of view.topics) {
    const name = kafka.topicName(topic)
    const own = [...filling.sources.values()].filter(({ source }) => source.topic === topic)
    const ranges = new Map<number, { from: number; to: number }>()
    for (const each of own) {
      const { source, position } = each
      const end = await (endOf?.(each) ?? reader.stableEnd(name, source.partition))
      ranges.set(source.partition, { from: position.next, to: Math.max(end, position.next) })
    }
    for await (const page of scanTopic(reader, name, ranges)) {
      const pages = Map.groupBy(page, ({ partition }) => partition)
      await Promise.all([...pages].map(([partition, records]) => takePage(filling, { topic, partition }, records)))
      filling.records += page.length
      onProgress?.(filling.records)
    }
    for (const each of own)
      each.position = { ...each.position, next: ranges.get(each.source.partition)?.to ?? each.position.next }
  }
  return filling.records - before
}

async function takePage(
  { parts: { kafka, publisher }, sources, letters }: Filling,
  { topic, partition }: Source,
  page: readonly ScannedRecord[],
): Promise<void> {
  const filled = sources.get(sourceName({ topic, partition }))
  if (filled === undefined) throw new Error(`${topic}-${partition} has no sink`)
  const { sink, position, stored } = filled
  for (const record of page) {
    const outcome = taken(kafka.codec, sink, { topic, position, record })
    // What the version before reflects was reported when its role took it.
    if (record.offset < (stored?.next ?? 0)) continue
    const letter = letters.recordOf({ topic: topics[topic].name, ...record }, outcome)
    if (letter) await publisher.send([letter])
  }
  await sink.flush()
}

function taken(
  codec: Codec,
  sink: RowSink,
  { topic, position, record }: { topic: TopicKey; position: ViewPosition; record: ScannedRecord },
): Outcome {
  const { partition, offset } = record
  const outcome = foldRecord(codec, { topic, partition }, record, mergeVersion(position, offset), one =>
    sink.apply(one),
  )
  const name = `${topics[topic].name}-${partition} at offset ${offset}`
  if (outcome.kind === 'unknown') throw new Refused(`${name}: ${adviceOn([outcome.event])}`)
  if (outcome.kind === 'retry') throw new Error(`${name} cannot be taken yet`)
  return outcome
}

/** Copies the rows that rest on expired records from the version before, partition by partition of each table. */
async function carryOver(
  writer: ClickhouseWriter,
  view: TableView,
  before: Version,
  version: Version,
  sources: readonly BuildSource[],
): Promise<number> {
  let carried = 0
  for (const viewTable of view.tables) {
    const { table } = viewTable
    const condition = restsOnExpired(viewTable, sources)
    if (condition === undefined) continue
    const [from, to] = [before, version].map(each => `${writer.database}.${tableOf(table.name, each)}`)
    // What the form before lacks takes its default.
    const present = await writer.rows<{ name: string }>(
      'SELECT name FROM system.columns WHERE database = {database:String} AND table = {table:String}',
      { database: writer.database, table: tableOf(table.name, before) },
    )
    const columns = Object.keys(table.columns)
      .filter(name => present.some(column => column.name === name))
      .join(', ')
    const parts = await writer.rows<{ id: string }>(`SELECT DISTINCT _partition_id AS id FROM ${from}`)
    for (const { id } of parts)
      await writer.command(
        `INSERT INTO ${to} (${columns}) SELECT ${columns} FROM ${from} WHERE _partition_id = '${id}' AND (${condition})`,
      )
    const [row] = await writer.rows<{ rows: number }>(`SELECT count() AS rows FROM ${to}`)
    carried += row?.rows ?? 0
  }
  return carried
}

/** SQL: whether a row of a table rests on a record that the log no longer holds; undefined: none does. */
export function restsOnExpired({ origins }: ViewTable, sources: readonly BuildSource[]): string | undefined {
  const conditions = origins.flatMap(({ topic, partition, isBefore }) => {
    // Versions of the first records that the log holds, by partition.
    const first = sources
      .filter(({ source }) => source.topic === topic)
      .map(({ position, log }) => mergeVersion(position, log.start))
    return first.some(each => each > 0) ? [`(${isBefore(`[${first.join(', ')}][${partition} + 1]`)})`] : []
  })
  return conditions.length === 0 ? undefined : conditions.join(' OR ')
}
