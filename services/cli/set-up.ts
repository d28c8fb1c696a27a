/**
 * Brings servers into the shape that the roles expect: migrations, topics, schemas, tables, catalog.
 *
 * Runs before every start and changes nothing when all is in place, which takes half a second. Every part may be run
 * again and be cut off anywhere. Two processes that start together run one after the other, by an advisory lock in
 * Postgres that ends with its connection. Must not start a role and must not drop anything.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { openWriter } from '#infra/clickhouse/clickhouse.ts'
import { setUpClickhouse } from '#infra/clickhouse/table.ts'
import { catalogRevision, catalogVersion, loadCatalog, revisionOf } from '#infra/config/catalog.ts'
import { registerSchemas } from '#infra/kafka/codec.ts'
import { connectKafka, type KafkaConnection } from '#infra/kafka/connection.ts'
import { decodeLearning } from '#infra/kafka/learning.ts'
import { openPublisher } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { setUpTopics } from '#infra/kafka/topic-admin.ts'
import { setUpJobs } from '#infra/postgres/jobs.ts'
import { migrate } from '#infra/postgres/migrate.ts'
import { type Database, databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { RedisRefusal } from '#infra/redis/redis.ts'
import { requireNoEviction } from '#infra/redis/servers.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { catalogItemPublished, catalogVersionPublished } from '#schemas/events/catalog-item-published.ts'
import { TABLES } from '#streams/views.ts'
import { CommandFailure, exitCodes } from './command-failure.ts'

/** Any number, the same in all versions of the platform. */
const LOCK = 7_236_414
const LOCK_LIMIT_MS = 180_000
const LOCK_POLL_MS = 100
/** Below the time after which Postgres ends an idle transaction. */
const LOCK_KEEP_MS = 3_000

/** Sets the servers up; `onPart` receives the name of each part. */
export async function setUp(
  config: PlatformConfig,
  log: Log,
  onPart: (part: string) => void = () => {},
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
    onPart('its turn')
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
      await run('catalog', () => publishCatalog(kafka))
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
    await setUpClickhouse(writer, TABLES)
  } finally {
    await writer.close()
  }
}

/** Works while it holds the lock, which a killed process releases with its connection. */
async function withAdvisoryLock(database: Database, work: () => Promise<void>): Promise<void> {
  await database.transaction(async query => {
    const limit = performance.now() + LOCK_LIMIT_MS
    const take = async (): Promise<boolean | undefined> =>
      (await query<{ taken: boolean }>('SELECT pg_try_advisory_xact_lock($1) AS taken', [LOCK]))[0]?.taken
    while (!(await take())) {
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
const ITEMS_PER_SEND = 2_000

/**
 * Publishes the built catalog where the log holds an older one; returns the number of items published, else 0.
 *
 * The version record is written last, so the log's last record names the version exactly when all of its items precede it; a
 * publication that was cut off is repeated from its beginning.
 */
export async function publishCatalog(kafka: KafkaConnection): Promise<number> {
  const version = catalogVersion()
  const published = await publishedVersion(kafka)
  if (published === version || revisionOf(published ?? '') > catalogRevision()) return 0
  const items = loadCatalog()
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
    const value = kafka.codec.encode(catalogVersionPublished, { version, items: items.length })
    await publisher.send([{ topic: 'catalog', key: 'version', value, partition: CATALOG_PARTITION }])
  } finally {
    await publisher.close()
  }
  return items.length
}

/** The version that the log's last record names; undefined when it is an item or there is none. */
async function publishedVersion(kafka: KafkaConnection): Promise<string | undefined> {
  const topic = kafka.topicName('catalog')
  const reader = await openRangeReader(kafka, [topic])
  try {
    const to = await reader.end(topic, CATALOG_PARTITION)
    let last: Buffer | null = null
    await reader.read({ topic, partition: CATALOG_PARTITION, from: to - 1, to }, record => {
      last = record.value
    })
    if (last === null) return undefined
    const { event, value } = await decodeLearning(kafka.codec, last)
    return event === catalogVersionPublished.name ? value.version : undefined
  } finally {
    await reader.close()
  }
}
