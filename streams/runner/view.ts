/**
 * The definition of a view: how it is named, what it reads and stores, and how it is run, rebuilt and verified.
 *
 * A definition loads none of the code that it names until that is called, so every process may read the list of all views
 * (streams/views.ts) and pays for the roles that it runs alone.
 */
import type { Batcher } from '#infra/clickhouse/batcher.ts'
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { Table } from '#infra/clickhouse/table.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { LogAccess } from '#infra/kafka/log-access.ts'
import type { KeyWrite } from '#infra/redis/guarded-write.ts'
import type { Redis, ViewStore } from '#infra/redis/redis.ts'
import type { PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import type { Metrics } from '#infra/runtime/metrics.ts'
import type { CatalogReader, RoleContext, StartRole } from '#infra/runtime/role.ts'
import type { TopicKey } from '#schemas/topics.ts'
import type { Instant } from '#schemas/values/instant.ts'
import type { Computed, Snapshot } from './computed-versions.ts'
import type { Findings } from './findings.ts'
import type { Outcome, StreamRecord } from './outcome.ts'
import type { LogParts, ViewPosition } from './positions.ts'
import type { RowSink } from './sink-runner.ts'

/** Rows of a table that rest on records of a topic which the log may no longer hold. */
export interface Origin {
  topic: TopicKey
  /** SQL: the partition of the records that a row rests on. */
  partition: string
  /** SQL: whether the row rests on a record before the one of a version (an SQL expression). */
  isBefore(version: string): string
}

export interface ViewTable {
  table: Table
  /** Of the rows that a build carries over. */
  origins: readonly Origin[]
}

export interface RebuildTask {
  config: PlatformConfig
  log: Log
  onProgress(step: string): void
  signal: AbortSignal
  /** Goes on without records that expired before the view saw them. */
  acceptLoss: boolean
}

export interface VerifyTask {
  config: PlatformConfig
  log: Log
  /** Opened for the topics that the comparison names. */
  access: LogAccess
  report(step: string): void
}

export interface Verification {
  topics: readonly TopicKey[]
  compare(task: VerifyTask): Promise<Findings>
}

export interface View<Name extends string = string> {
  readonly name: Name
  /** Further names that `rebuild` and `verify` take. */
  readonly aliases?: readonly string[]
  /** Read in the group of its name; what a role reads without a group is not named. */
  readonly topics: readonly TopicKey[]
  readonly store: 'redis' | 'clickhouse' | 'log'
  /** The process that runs the role where a whole platform is on one machine (services/cli/roles.ts). */
  readonly process: 'path' | 'analytics'
  readonly tables: readonly ViewTable[]
  /** The views that it is computed of, each with the topic up to whose end that must be; undefined where it is built from the log. */
  readonly computedOf?: Readonly<Record<string, TopicKey>>
  readonly start: StartRole
  /** Builds the view from the log while the old one is read, then switches; resolves with what it did. */
  readonly rebuild?: (task: RebuildTask) => Promise<object>
  readonly verify?: Verification
}

/** A view in ClickHouse, all of whose tables merge by the version of the record that a row rests on. */
export interface TableView<Name extends string = string> extends View<Name> {
  readonly maxBytesPerPartition?: number
  /** Opens the sink of a partition of a topic, writing through a batcher. */
  open(topic: TopicKey, batcher: Batcher, catalog: () => Promise<CatalogReader>): Promise<RowSink>
}

/** The head of a partition of a view in Redis: which version is read, and what it reflects. The rest of it is the view's own. */
export interface ViewHead extends ViewPosition {
  /** The form of head and rows; 1 when left out. */
  format?: number
  version: number
}

/** A head as its owner last saw it. */
export interface OwnedHead<Head extends ViewHead = ViewHead> {
  head: Head
  text: string
}

export interface RedisPartition extends ViewStore {
  partition: number
}

export interface RedisVersion extends RedisPartition {
  version: number
}

/** Folds records of a partition into what a version must write. */
export interface RedisFold {
  apply(record: StreamRecord): Outcome
  /** The effect of all that was applied since the last call: its writes, and the view's own members of the head that it leads to. */
  drain(): { writes: KeyWrite[]; own: object; touched?: readonly string[] }
}

export interface FlushCompanion {
  /** Carries a flush out, with further writes; `touched` is what it touches, up to `next`. */
  flush(
    write: (beside: readonly KeyWrite[]) => Promise<OwnedHead>,
    flushed: { touched: readonly string[]; next: number },
  ): Promise<void>
  close(): Promise<void>
}

/** A view in Redis: a hash tag, a head and versions of its rows for each partition of its topic. */
export interface RedisView<Name extends string = string, Fold extends RedisFold = RedisFold> extends View<Name> {
  readonly maxBytesPerPartition?: number
  /** Of the form in which this process writes head and rows: a version of another one is built again. */
  readonly format: number
  /** The begin of all keys of a partition, its hash tag included; `*` matches those of all. */
  rootOf(partition: number | '*', prefix: string): string
  /** Opens the fold of a version, of what it holds by its head; it has none before it is read. */
  open(version: RedisVersion, head: ViewHead | undefined, metrics: Metrics): Promise<Fold>
  /** Read before the log, to fill it from; `fill` passes that to the folds of partitions, and `page` writes what they hold. */
  readonly base?: {
    topics: readonly TopicKey[]
    fill(parts: LogParts, folds: ReadonlyMap<number, Fold>, page: () => Promise<void>): Promise<void>
  }
  /** Of a version that is built and the one before, at one position: what of the latter rests on expired records. */
  carriedOver?(built: Fold, before: Fold): KeyWrite[]
  /** The own members of a head that follows a whole one. */
  succeed?(own: object, before: ViewHead): object
  companions?(context: RoleContext, redis: Redis): Promise<(of: RedisPartition, written: OwnedHead) => FlushCompanion>
}

export interface ComputedView<Name extends string = string> extends View<Name> {
  readonly computedOf: Readonly<Record<string, TopicKey>>
  /** Resolves with undefined when the role was stopped first. */
  open(tools: ComputingTools): Promise<Computation | undefined>
}

export interface ComputingTools {
  context: RoleContext
  kafka: KafkaConnection
  redis: Redis
  clickhouse: ClickhouseReader
  log: Log
  signal: AbortSignal
}

export interface ComputedSnapshot extends Snapshot {
  /** Those of the view's sources that it is computed of; all of them when left out. */
  readonly of?: readonly string[]
  /** How long after a version the next one is due though nothing has come; at once when left out. */
  readonly restMs?: number
  /** The feeds of providers that count at a moment: without any nothing is computed; where one has come, the next version is due. */
  feeds(asOf: Instant): Promise<readonly string[]>
  /** Computes a version of a moment; undefined where nothing is known. */
  compute(asOf: Instant): Promise<Computed | undefined>
}

export interface Computation {
  readonly snapshots: readonly ComputedSnapshot[]
  /** A topic that it reads itself, and the next offset of each partition. */
  readonly own?: { readonly topic: TopicKey; position(partition: number): number }
}

/** SQL: the partition of a topic that a key goes to, as Kafka's own producers choose it. */
export const partitionSql = (key: string, partitions: number): string =>
  `bitAnd(kafkaMurmurHash(${key}), 2147483647) % ${partitions}`
