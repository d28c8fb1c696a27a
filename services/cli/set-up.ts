/**
 * Brings servers into the shape that the roles expect: migrations, topics, schemas, tables, catalog.
 *
 * Runs before every start and changes nothing when all is in place, which takes half a second. Every part may be run
 * again and be cut off anywhere. Two processes that start together run one after the other, by an advisory lock in
 * Postgres that ends with its connection. Must not start a role and must not drop anything.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { openWriter } from '#infra/clickhouse/clickhouse.ts'
import { setUpClickhouse } from '#infra/clickhouse/set-up.ts'
import { registerSchemas } from '#infra/kafka/codec.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { setUpTopics } from '#infra/kafka/topic-admin.ts'
import { setUpJobs } from '#infra/postgres/jobs.ts'
import { migrate } from '#infra/postgres/migrate.ts'
import { type Database, databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { TABLES } from '#streams/views.ts'
import { publishCatalog } from './publish-catalog.ts'

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
  const url = databaseUrl(config.servers.postgres, databaseName(namespace))
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
