/**
 * Brings servers into the shape that the roles expect: migrations, topics, schemas, tables, catalog.
 *
 * Runs before every start and changes nothing when all is in place, which takes half a second. Every part may be run
 * again and be cut off anywhere. Two processes that start together run one after the other, by an advisory lock in
 * Postgres that ends with its connection. Must not start a role and must not drop anything.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { openWriter } from '#infra/clickhouse/clickhouse.ts'
import { refuseFormer, setUpClickhouse } from '#infra/clickhouse/table.ts'
import { catalogVersion, type ItemIdentity, identityFault, loadCatalog, revisionOf } from '#infra/config/catalog.ts'
import { connectKafka, type KafkaConnection } from '#infra/kafka/connection.ts'
import { openPublisher } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { registerSchemas } from '#infra/kafka/schema-registry.ts'
import { setUpTopics } from '#infra/kafka/topic-admin.ts'
import { setUpJobs } from '#infra/postgres/jobs.ts'
import { migrate } from '#infra/postgres/migrate.ts'
import { type Database, databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { RedisRefusal } from '#infra/redis/redis.ts'
import { requireNoEviction } from '#infra/redis/servers.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { catalogItemPublished, catalogVersionPublished } from '#schemas/events/catalog-item-published.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { viewPositions } from '#streams/runner/table-versions.ts'
import { VIEWS } from '#streams/views.ts'
import { CommandFailure, exitCodes } from './command-failure.ts'

/** Any number, the same in all versions of the platform. */
const LOCK = 7_236_414
const LOCK_LIMIT_MS = 180_000
const LOCK_POLL_MS = 100
/** Below the time after which Postgres ends an idle transaction. */
const LOCK_KEEP_MS = 3_000

/** Sets the servers up; `onPart` receives the name of each part, `items` are published where the log holds an older catalog. */
export async function setUp(
  config: PlatformConfig,
  log: Log,
  { onPart = () => {}, items = loadCatalog }: { onPart?: (part: string) => void; items?: () => CatalogItem[] } = {},
): Promise<void> {
  const run = async (part: string, work: () => Promise<unknown>): Promise<void> => {
    const startedAt = performance.now()
    onPart(part)
    const result = await work()
    log.info({ part, ms: Math.round(performance.now() - startedAt), result }, 'set up')
  }
  const { namespace } = config
  const url = databaseUrl(config.servers.postgresDirect ?? config.servers.postgres, databaseName(namespace))
  await run('migrations', () => migrate(url))
  const database = openDatabase(url, { name: 'set-up', log, connections: 1 })
  try {
    onPart('the lock')
    await withAdvisoryLock(database, async () => {
      const kafka = connectKafka({ config, role: 'setup', log })
      await allEnded([
        run('jobs', () => setUpJobs(url, log)),
        run('topics', () => setUpTopics(kafka)),
        run('schemas', () =>
          registerSchemas({ registry: { url: config.servers.schemaRegistry, settings: config.registry }, namespace }),
        ),
        run('tables', () => setUpTables(config)),
        run('redis', () => checkRedis(config, log)),
      ])
      await run('catalog', () => publishCatalog(kafka, items))
    })
  } finally {
    await database.close()
  }
}

/** Waits for all, then throws what the first of those that failed has thrown: none works on after the lock is released. */
async function allEnded(parts: readonly Promise<void>[]): Promise<void> {
  for (const outcome of await Promise.allSettled(parts)) if (outcome.status === 'rejected') throw outcome.reason
}

/** Nothing is set up in Redis, but what it drops by itself would be missed by all. */
async function checkRedis(config: PlatformConfig, log: Log): Promise<void> {
  try {
    await requireNoEviction(config, log)
  } catch (error) {
    if (error instanceof RedisRefusal) throw new CommandFailure(error.message, exitCodes.serverUnavailable, error)
    throw error
  }
}

async function setUpTables(config: PlatformConfig): Promise<void> {
  const writer = openWriter(config.servers.clickhouse, { database: databaseName(config.namespace), name: 'set-up' })
  try {
    await refuseFormer(
      writer,
      VIEWS.flatMap(({ tables }) => tables.map(({ table }) => table.name)),
    )
    await setUpClickhouse(writer, [viewPositions])
  } finally {
    await writer.close()
  }
}

/** Works while it holds the lock, which a killed process releases with its connection. */
async function withAdvisoryLock(database: Database, work: () => Promise<void>): Promise<void> {
  await database.transaction(async query => {
    const limit = performance.now() + LOCK_LIMIT_MS
    const acquire = async (): Promise<boolean | undefined> =>
      (await query<{ acquired: boolean }>('SELECT pg_try_advisory_xact_lock($1) AS acquired', [LOCK]))[0]?.acquired
    while (!(await acquire())) {
      if (performance.now() > limit)
        throw new Error(`another process has been setting up for ${LOCK_LIMIT_MS / 1000} s`)
      await pause(LOCK_POLL_MS)
    }
    // A lost connection is met by the commit.
    const keep = setInterval(() => query('SELECT 1').catch(() => undefined), LOCK_KEEP_MS)
    try {
      await work()
    } finally {
      clearInterval(keep)
    }
  })
}

const CATALOG_WRITER = 'setup'
const CATALOG_PARTITION = 0
const VERSION_KEY = 'version'
const ITEMS_PER_SEND = 2_000

/**
 * Publishes the built catalog where the log holds an older one; returns the number of items published, else 0.
 *
 * The version record is written last, so the log's last record names the version exactly when all of its items precede it; a
 * publication that was cut off is repeated from its beginning. Throws, with nothing written, when an id would change its name.
 */
export async function publishCatalog(kafka: KafkaConnection, load = loadCatalog): Promise<number> {
  const own = catalogVersion()
  const published = await publishedCatalog(kafka)
  const decision = decideCatalog(own, published)
  if (decision === 'left')
    kafka.log.warn({ own, published: published.newest }, 'the log holds a newer catalog, which is left in place')
  if (decision !== 'published') return 0
  const items = load()
  const fault = identityFault(await publishedItems(kafka), items)
  if (fault !== undefined) {
    throw new Error(
      `the catalog ${own} cannot follow ${published.newest ?? 'what the log holds'}: ${fault}. An item id keeps its name: build ` +
        'this catalog again from the files of the published one (`npm run catalog:build`), or start with an empty log',
    )
  }
  const publisher = await openPublisher(kafka, CATALOG_WRITER)
  try {
    for (let from = 0; from < items.length; from += ITEMS_PER_SEND) {
      await publisher.send(
        items.slice(from, from + ITEMS_PER_SEND).map(item => ({
          topic: 'catalog' as const,
          key: String(item.item_id),
          partition: CATALOG_PARTITION,
          value: kafka.codec.encode(catalogItemPublished, { ...item, supply: item.supply ?? null } as never),
        })),
      )
    }
    const value = kafka.codec.encode(catalogVersionPublished, { version: own, items: items.length })
    await publisher.send([{ topic: 'catalog', key: VERSION_KEY, value, partition: CATALOG_PARTITION }])
  } finally {
    await publisher.close()
  }
  return items.length
}

/** The last record of every item. */
async function publishedItems(kafka: KafkaConnection): Promise<ItemIdentity[]> {
  const topic = kafka.topicName('catalog')
  const reader = await openRangeReader(kafka, [topic])
  const items = new Map<number, ItemIdentity>()
  try {
    const to = await reader.end(topic, CATALOG_PARTITION)
    const from = await reader.start(topic, CATALOG_PARTITION)
    for await (const page of reader.range(topic, new Map([[CATALOG_PARTITION, { from, to }]]))) {
      for (const { value: bytes } of page) {
        if (bytes === null) continue
        const { event, value } = kafka.codec.decode(bytes)
        if (event === catalogItemPublished.name) items.set(value.item_id, value)
      }
    }
  } finally {
    await reader.close()
  }
  return [...items.values()]
}

export interface PublishedCatalog {
  /** The newest version that was published whole; undefined: none was. */
  newest: string | undefined
  /** Whether its items are the last in the log: no publication was cut off after it. */
  isLast: boolean
}

/**
 * What a start does about the catalog: publishes its own, finds it in place, or leaves a newer one.
 *
 * A revision never goes back, not even after a publication that was cut off. Of two contents of one revision, which builds do not
 * make, the one in the log stays.
 */
export function decideCatalog(own: string, { newest, isLast }: PublishedCatalog): 'published' | 'in place' | 'left' {
  if (newest === undefined || revisionOf(newest) < revisionOf(own)) return 'published'
  if (newest !== own) return 'left'
  return isLast ? 'in place' : 'published'
}

/** Reads the last record, and all of the log only where that is no version. */
export async function publishedCatalog(kafka: KafkaConnection): Promise<PublishedCatalog> {
  const last = await lastVersion(kafka, end => end - 1)
  if (last !== undefined) return { newest: last, isLast: true }
  return { newest: await lastVersion(kafka, () => 0), isLast: false }
}

async function lastVersion(kafka: KafkaConnection, from: (end: number) => number): Promise<string | undefined> {
  const topic = kafka.topicName('catalog')
  const reader = await openRangeReader(kafka, [topic])
  try {
    const to = await reader.end(topic, CATALOG_PARTITION)
    let last: Buffer | null = null
    for await (const page of reader.range(topic, new Map([[CATALOG_PARTITION, { from: from(to), to }]])))
      for (const { key, value } of page) if (key?.toString() === VERSION_KEY) last = value
    return last === null ? undefined : kafka.codec.decode(last).value.version
  } finally {
    await reader.close()
  }
}
