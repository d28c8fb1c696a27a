/**
 * Brings servers into the shape that the roles expect: migrations, topics, schemas, tables, catalog.
 *
 * Runs before every start and changes nothing when all is in place, which takes half a second. Every part may be run
 * again and be cut off anywhere. Two processes that start together run one after the other, by an advisory lock in
 * Postgres that ends with its connection. Must not start a role and must not drop anything.
 */
import { openWriter } from '#infra/clickhouse/clickhouse.ts'
import { refuseFormer, setUpClickhouse } from '#infra/clickhouse/table.ts'
import { catalogVersion, identityFault, loadCatalog, revisionOf } from '#infra/config/catalog.ts'
import { eventOf } from '#infra/kafka/codec.ts'
import { connectKafka, type KafkaConnection } from '#infra/kafka/connection.ts'
import { openPublisher } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { registerSchemas } from '#infra/kafka/schema-registry.ts'
import { setUpTopics } from '#infra/kafka/topic-admin.ts'
import { setUpJobs } from '#infra/postgres/jobs.ts'
import { migrate } from '#infra/postgres/migrate.ts'
import { acquireAdvisoryLock, databaseUrl, openDatabase, type Query } from '#infra/postgres/pool.ts'
import { RedisRefusal } from '#infra/redis/redis.ts'
import { requireNoEviction } from '#infra/redis/servers.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { catalogItemPublished, catalogVersionPublished } from '#schemas/events/catalog-item-published.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { viewPositions } from '#streams/runner/table-versions.ts'
import { VIEWS } from '#streams/views.ts'
import { CommandFailure, exitCodes } from './command-failure.ts'

/** After it the lock of a process that stands still is released, and those that wait for it go on. */
const WORK_LIMIT_MS = 300_000
const LOCK_LIMIT_MS = 310_000

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
  const database = openDatabase(url, { name: 'set-up', log, connections: 1, statementLimitMs: 2 * LOCK_LIMIT_MS })
  try {
    onPart('the lock')
    await database.transaction(async query => {
      await acquireLock(query)
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

/** A killed process releases it with its connection. */
async function acquireLock(query: Query): Promise<void> {
  await query(`SET LOCAL lock_timeout = ${LOCK_LIMIT_MS}`)
  await query(`SET LOCAL idle_in_transaction_session_timeout = ${WORK_LIMIT_MS}`)
  await acquireAdvisoryLock(query, 'set-up').catch(cause => {
    throw new Error(`the lock of the set-up was not acquired within ${LOCK_LIMIT_MS / 1000} s`, { cause })
  })
}

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
  const logged = await readCatalog(kafka, () => 0)
  logged.delete(VERSION_KEY)
  const fault = identityFault([...logged.values()], items)
  if (fault !== undefined) {
    throw new Error(
      `the catalog ${own} cannot follow ${published.newest ?? 'what the log holds'}: ${fault}. An item id keeps its name: build ` +
        'this catalog again from the files of the published one (`npm run catalog:build`), or start with an empty log',
    )
  }
  const publisher = await openPublisher(kafka, 'setup')
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

/** The last value of every key of the catalog's topic from an offset on. */
// biome-ignore lint/suspicious/noExplicitAny: the key says whether it is an item or the version.
async function readCatalog(kafka: KafkaConnection, from: (end: number) => number): Promise<Map<string, any>> {
  const topic = kafka.topicName('catalog')
  const reader = await openRangeReader(kafka, [topic])
  const values = new Map<string, unknown>()
  try {
    const to = await reader.end(topic, CATALOG_PARTITION)
    for await (const page of reader.range(topic, new Map([[CATALOG_PARTITION, { from: from(to), to }]])))
      for (const { key, value } of page) {
        // A newer version may have published what this one does not know.
        const event = eventOf(kafka.codec, value)
        if (event) values.set(`${key}`, event.value)
      }
  } finally {
    await reader.close()
  }
  return values
}

/**
 * Whether a start publishes its own catalog, finds it in place, or leaves a newer one.
 *
 * A revision never goes back, not even after a publication that was cut off. Of two contents of one revision, which builds do not
 * make, the one in the log stays.
 */
export function decideCatalog(
  own: string,
  { newest, isLast }: Awaited<ReturnType<typeof publishedCatalog>>,
): 'published' | 'in place' | 'left' {
  if (newest === undefined || revisionOf(newest) < revisionOf(own)) return 'published'
  if (newest !== own) return 'left'
  return isLast ? 'in place' : 'published'
}

/**
 * The newest version that was published whole, and whether its items are the last in the log: no publication was cut off after it.
 * Reads the last record, and all of the log only where that is no version.
 */
export async function publishedCatalog(
  kafka: KafkaConnection,
): Promise<{ newest: string | undefined; isLast: boolean }> {
  const last = (await readCatalog(kafka, end => end - 1)).get(VERSION_KEY)
  if (last !== undefined) return { newest: last.version, isLast: true }
  return { newest: (await readCatalog(kafka, () => 0)).get(VERSION_KEY)?.version, isLast: false }
}
