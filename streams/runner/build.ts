/**
 * Builds a version of a view and makes it the one that is read: at the first start, by `rebuild`, after a change of its form, and where
 * what is stored is lost.
 *
 * The view's own sinks write a version that nobody reads: from the view's base where it has one, then from the log; rows that rest on
 * records which the log no longer holds are carried over from the version before. Where versions are, and how one takes the place of
 * another, is the store's (table-store.ts, redis-store.ts). States: filling -> caught up -> read -> the version before is dropped.
 * Invariant: a kill leaves the version before in place, and a version that nobody reads, which the next build drops; one build of a
 * partition goes on at a time, by a lease in Redis, and one that was paused beyond its lease finds its version dropped or another one
 * in its place.
 */
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import type { Codec } from '#infra/kafka/codec.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { openPublisher, type Publisher } from '#infra/kafka/publisher.ts'
import { type LogRecord, openRangeReader } from '#infra/kafka/range-reader.ts'
import { openTopicIds } from '#infra/kafka/topic-ids.ts'
import { withLeases } from '#infra/redis/lease.ts'
import { closeRedis, openRedis, type ViewStore } from '#infra/redis/redis.ts'
import { type Metrics, openMetrics } from '#infra/runtime/metrics.ts'
import { Refused } from '#infra/runtime/refused.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { type TopicKey, topics } from '#schemas/topics.ts'
import { type LetterOf, openDeadLetters } from './dead-letters.ts'
import { foldRecord } from './decoding.ts'
import type { Findings } from './findings.ts'
import type { Outcome } from './outcome.ts'
import {
  assertNoLoss,
  type LogParts,
  mergeVersion,
  type PartitionLog,
  type Source,
  sourceName,
  type ViewPosition,
} from './positions.ts'
import type { RowSink } from './sink-runner.ts'
import { adviceOn } from './unknown-events.ts'
import type { RebuildTask, View } from './view.ts'

export interface Versions {
  view: Pick<View, 'name' | 'topics'>
  /** Read before the view's topics. */
  baseTopics: readonly TopicKey[]
  /** Of the leases that a build holds. */
  leaseKeys: readonly string[]
  openStore(parts: BuildParts): VersionStore
}

export interface BuildParts extends LogParts, ViewStore, Pick<Versions, 'view'> {
  publisher: Publisher
  /** That nobody reads. */
  metrics: Metrics
  catalog: () => Promise<CatalogReader>
}

/** A partition of the log, what the version that is read reflects of it, and where the new version is. */
export interface BuildSource {
  source: Source
  stored: ViewPosition | undefined
  /** Whether that version has its rows, in a form from which they can be carried over. */
  hasRows: boolean
  log: PartitionLog
  position: ViewPosition
}

/** The versions of a view in their store, for one build or comparison. */
export interface VersionStore {
  /** The partitions that a version is built of; none where one is wanted only if it is missing or faulty, and is not. */
  readSources(isMissingOnly: boolean): Promise<BuildSource[]>
  create(sources: readonly BuildSource[]): Promise<void>
  open(source: BuildSource): Promise<RowSink>
  /** Copies rows that rest on expired records into the new version, before it is filled; resolves with their number. */
  carryOver?(sources: readonly BuildSource[]): Promise<number>
  /** Fills the new version with what the log from its positions on is applied to. */
  fillFromBase?(onPage: () => void): Promise<void>
  /** Makes the new version the one that is read; throws {@link Conflict} where another one was built meanwhile. */
  switchTo(filling: Filling): Promise<void>
  dropNew(): Promise<void>
  /** Drops all versions but the one that is read, and those that were made later. */
  dropOthers(): Promise<void>
  /** Where the version is that was read first; throws {@link Conflict} where it is another one by now. */
  readPositions(): Promise<(source: Source) => ViewPosition | undefined>
  compare(filling: Filling, report: (step: string) => void): Promise<Comparison>
  close(): Promise<void>
}

/** Rows that differ by name: as the store has them, and as the log gives them; undefined: it is not there. */
export type DifferentRows = Map<string, { found: string | undefined; expected: string | undefined }>

/** The result of a comparison; rows that differ are not in its findings. */
export interface Comparison {
  findings: Findings
  different: DifferentRows
}

interface Build extends RebuildTask {
  /** Builds only where there is no version of the declared form that the log goes on from. */
  isMissingOnly?: boolean
}

interface Built {
  records: number
  /** Rows carried over, since the log no longer holds what they rest on. */
  carried: number
}

const CAUGHT_UP = 2_000
const ROUNDS = 20

/** Builds a version of a view and switches to it; undefined where one was wanted only if it is missing, and is not. */
export async function build(versions: Versions, task: Build & { isMissingOnly: true }): Promise<Built | undefined>
export async function build(versions: Versions, task: Build): Promise<Built>
export async function build(versions: Versions, task: Build): Promise<Built | undefined> {
  return withStore(versions, task, (parts, store, signal) => buildIn(parts, store, { ...task, signal }))
}

/** Works on versions of a view while it holds the leases for that; the signal aborts where one is lost. */
export async function withStore<T>(
  { view, baseTopics, leaseKeys, openStore }: Versions,
  { config, log, signal }: Pick<RebuildTask, 'config' | 'log' | 'signal'>,
  work: (parts: BuildParts, store: VersionStore, signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const { namespace: prefix } = config
  const kafka = connectKafka({ config, role: 'build', log })
  const redis = await openRedis(config, { name: `${prefix}build`, log })
  let catalog: Promise<CatalogReader> | undefined
  const openCatalog = (): Promise<CatalogReader> => (catalog ??= openCatalogReader(kafka))
  const reader = await openRangeReader(kafka, [...view.topics, ...baseTopics].map(kafka.topicName))
  const publisher = await openPublisher(kafka, 'runner')
  const ids = openTopicIds(kafka)
  const parts = { view, kafka, reader, ids, redis, prefix, publisher, metrics: openMetrics(), catalog: openCatalog }
  const store = openStore(parts)
  try {
    return await withLeases(redis, leaseKeys, lost => work(parts, store, AbortSignal.any([signal, lost])))
  } finally {
    await store.close()
    await (await catalog?.catch(() => undefined))?.close()
    await ids.close()
    await publisher.close()
    await reader.close()
    await closeRedis(redis)
  }
}

async function buildIn(
  parts: BuildParts,
  store: VersionStore,
  { onProgress, signal, acceptLoss, isMissingOnly = false }: Build,
): Promise<Built | undefined> {
  const { view, kafka, metrics } = parts
  const sources = await store.readSources(isMissingOnly)
  if (sources.length === 0) return undefined
  for (const { source, stored, hasRows, log } of store.fillFromBase ? [] : sources) {
    if (hasRows) assertNoLoss(view.name, stored, log, acceptLoss)
    else if (log.start > 0)
      kafka.log.warn({ ...source, records: log.start }, 'it is built without records that the log no longer holds')
  }
  await store.dropOthers()
  onProgress('making an empty version')
  await store.create(sources)
  const letterOf = openDeadLetters({ group: view.name, codec: kafka.codec, metrics, log: kafka.log })
  const filling = await openFilling(parts, store, sources, letterOf)
  const onRecords = (records: number): void => {
    signal.throwIfAborted()
    onProgress(`reading the log: ${records.toLocaleString('en')} records`)
  }
  filling.carried += (await store.carryOver?.(sources)) ?? 0
  await fillFromBase(filling, onRecords)
  await catchUp(filling, onRecords)
  onProgress('switching')
  signal.throwIfAborted()
  await store.switchTo(filling)
  await store.dropOthers()
  const { records, carried } = filling
  return { records, carried }
}

export interface Filling {
  parts: BuildParts
  store: VersionStore
  /** By the name of their partition. */
  sources: ReadonlyMap<string, BuildSource & { sink: RowSink }>
  /** Undefined: records that cannot be taken are left out silently. */
  letterOf: LetterOf | undefined
  records: number
  carried: number
}

export async function openFilling(
  parts: BuildParts,
  store: VersionStore,
  sources: readonly BuildSource[],
  letterOf?: LetterOf,
): Promise<Filling> {
  const opened = new Map<string, BuildSource & { sink: RowSink }>()
  for (const each of sources) opened.set(sourceName(each.source), { ...each, sink: await store.open(each) })
  return { parts, store, sources: opened, letterOf, records: 0, carried: 0 }
}

/**
 * Fills a version from its base. Its positions were taken before: what lies below one is committed, so the base has it. What the base has
 * beyond, open transactions included, is read from the log up to the end of after.
 */
export async function fillFromBase(filling: Filling, onProgress: (records: number) => void): Promise<void> {
  const { store, parts } = filling
  if (store.fillFromBase === undefined) return
  await store.fillFromBase(() => onProgress(filling.records))
  const { reader, kafka } = parts
  await sweep(filling, {
    onProgress,
    endOf: ({ source: { topic, partition } }) => reader.end(kafka.topicName(topic), partition),
  })
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

/** Reads each partition, or one, to an end, that of now when left out; resolves with the records that were read. */
export async function sweep(
  filling: Filling,
  {
    onProgress,
    endOf,
    only,
  }: {
    onProgress?: (records: number) => void
    endOf?: (source: BuildSource) => Promise<number>
    only?: BuildSource
  } = {},
): Promise<number> {
  const { view, kafka, reader } = filling.parts
  const before = filling.records
  for (const topic of view.topics) {
    const name = kafka.topicName(topic)
    const ofTopic = [...filling.sources.values()].filter(each => each.source.topic === topic && each === (only ?? each))
    const ranges = new Map<number, { from: number; to: number }>()
    for (const each of ofTopic) {
      const { source, position } = each
      const end = await (endOf?.(each) ?? reader.stableEnd(name, source.partition))
      ranges.set(source.partition, { from: position.next, to: Math.max(end, position.next) })
    }
    for await (const page of reader.range(name, ranges)) {
      const pages = Map.groupBy(page, ({ partition }) => partition)
      await Promise.all([...pages].map(([partition, records]) => applyPage(filling, { topic, partition }, records)))
      filling.records += page.length
      onProgress?.(filling.records)
    }
    for (const each of ofTopic)
      each.position = { ...each.position, next: ranges.get(each.source.partition)?.to ?? each.position.next }
  }
  return filling.records - before
}

async function applyPage(
  { parts: { kafka, publisher }, sources, letterOf }: Filling,
  { topic, partition }: Source,
  page: readonly LogRecord[],
): Promise<void> {
  const filled = sources.get(sourceName({ topic, partition }))
  if (filled === undefined) throw new Error(`${topic}-${partition} has no sink`)
  const { sink, position, stored } = filled
  for (const record of page) {
    const outcome = applyRecord(kafka.codec, sink, { topic, position, record })
    // What the version before reflects was reported when its role took it.
    if (record.offset < (stored?.next ?? 0)) continue
    const letter = letterOf?.({ topic: topics[topic].name, ...record }, outcome)
    if (letter) await publisher.send([letter])
  }
  await sink.flush()
}

/** Folds records of a partition, from the position on, into something that is not written. */
export async function foldInto(
  { kafka, reader }: BuildParts,
  { source: { topic, partition }, position }: Pick<BuildSource, 'source' | 'position'>,
  to: number,
  fold: Pick<RowSink, 'apply'>,
): Promise<void> {
  const ranges = new Map([[partition, { from: position.next, to }]])
  for await (const page of reader.range(kafka.topicName(topic), ranges))
    for (const record of page) applyRecord(kafka.codec, fold, { topic, position, record })
}

function applyRecord(
  codec: Codec,
  sink: Pick<RowSink, 'apply'>,
  { topic, position, record }: { topic: TopicKey; position: ViewPosition; record: LogRecord },
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
