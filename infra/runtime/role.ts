/**
 * The parts that a role gets when it starts, and those that it gives back: the contract between the composition root
 * (services/cli) and every room that runs.
 *
 * A role opens its own clients and closes them in `stop`, in reverse order. Invariant: a role that
 * loses a dependency for good, or meets a bug, calls `fail`; it never goes on half alive.
 */
import type { TopicKey } from '#schemas/topics.ts'
import type { CatalogItem, CatalogLookup } from '#schemas/values/catalog-item.ts'
import type { ItemNames } from '#schemas/values/item-name.ts'
import type { PlatformConfig } from './config.ts'
import type { HttpHost } from './http-host.ts'
import type { Log } from './log.ts'
import type { Metrics } from './metrics.ts'

/** The catalog of this process, in memory; infra/kafka/catalog-reader.ts opens it. */
export interface CatalogReader extends ItemNames {
  /** All items by ascending id; a new array after a change. */
  items(): readonly CatalogItem[]
  byId(itemId: number): CatalogItem | undefined
  /** The published version; changes when items do. */
  version(): string
  /** The names of the present version; they stay as they are when the next one comes. */
  lookup(): CatalogLookup
  close(): Promise<void>
}

/** The ids of topics, by which one that was deleted and created again differs from the one before; infra/kafka/topic-ids.ts opens it. */
export interface TopicIds {
  /** The id that brokers give a topic now. Rejects while brokers are away, and where there is no such topic. */
  idOf(topic: TopicKey): Promise<string>
  /** Calls back when one of the topics has another id, or none any more, than when it was last asked for. Returns how to end it. */
  onChange(topics: readonly TopicKey[], listener: () => void): () => void
  close(): Promise<void>
}

export interface RoleContext {
  config: PlatformConfig
  log: Log
  metrics: Metrics
  http: HttpHost
  /** Aborts when the process begins to stop. */
  signal: AbortSignal
  /** Ends the process after logging: a bug or a lost dependency. Its supervisor restarts it. */
  fail(error: Error): void
  /** A part of the role waits for the operator's decision, which its readiness says: where it runs alone, the process ends. */
  stopped(reason: Error): void
  /** The ids of topics, watched once for all roles. */
  topicIds(): Promise<TopicIds>
  /** The catalog of this process, read once and shared by its roles. */
  catalog(): Promise<CatalogReader>
}

export interface RunningRole {
  name: string
  /** Undefined when ready, else the reason why not. */
  ready(): Promise<string | undefined>
  stop(): Promise<void>
}

export type StartRole = (context: RoleContext) => Promise<RunningRole>
