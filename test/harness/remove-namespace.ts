/** Invariant: the production namespace is refused; nothing outside the given namespace is touched. */
import { type ClickhouseWriter, openWriter } from '#infra/clickhouse/clickhouse.ts'
import { withAdmin } from '#infra/kafka/admin.ts'
import { connectKafka, type KafkaConnection } from '#infra/kafka/connection.ts'
import { databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { closeRedis, openRedis, slotOf } from '#infra/redis/redis.ts'
import { scanKeys } from '#infra/redis/servers.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'
import { databaseOf } from '#infra/runtime/postgres-address.ts'

const REQUEST_LIMIT_MS = 10_000
const DROP_LIMIT_MS = 30_000

/** Removes a namespace from all servers; what is not on the broker, which thousands of partitions slow down, may stay where no run comes after. */
export async function removeNamespace(
  config: PlatformConfig,
  log: Log,
  { keepStores = false }: { keepStores?: boolean } = {},
): Promise<void> {
  if (config.namespace === '') throw new Error('the production namespace is not removed')
  await deleteTopics(connectKafka({ config, role: 'test', log }))
  if (keepStores) return
  await deleteSubjects(config.servers.schemaRegistry, config.namespace)
  await deleteKeys(config, log)
  const database = databaseName(config.namespace)
  const { postgres, postgresDirect = postgres } = config.servers
  await dropDatabase(databaseUrl(postgresDirect, database), log)
  const clickhouse = openWriter(config.servers.clickhouse, { database, name: 'test' })
  await dropClickhouse(clickhouse).finally(() => clickhouse.close())
}

export async function dropClickhouse(writer: ClickhouseWriter): Promise<void> {
  await writer.command(`DROP DATABASE IF EXISTS ${writer.database} SYNC`)
}

/** Drops a Postgres database of a namespace and ends its connections. */
export async function dropDatabase(url: string, log: Log): Promise<void> {
  const name = databaseOf(url)
  if (!name.includes('_')) throw new Error(`${name} is not the database of a namespace and is not dropped`)
  // A database cannot drop itself.
  const server = openDatabase(databaseUrl(url, 'postgres'), {
    name: 'test',
    log,
    connections: 1,
    statementLimitMs: DROP_LIMIT_MS,
  })
  try {
    await server.rows(`DROP DATABASE IF EXISTS "${name.replaceAll('"', '""')}" WITH (FORCE)`)
  } finally {
    await server.close()
  }
}

const deleteTopics = (kafka: KafkaConnection): Promise<void> =>
  withAdmin(kafka, async admin => {
    const own = (await admin.listTopics()).filter(topic => topic.startsWith(kafka.namespace))
    if (own.length > 0) await admin.deleteTopics({ topics: own })
  })

async function deleteKeys(config: PlatformConfig, log: Log): Promise<void> {
  const redis = await openRedis(config, { name: 'test', log })
  try {
    for await (const keys of scanKeys(redis, `${config.namespace}*`, 10_000)) {
      // Keys of one slot may be deleted together.
      for (const some of Map.groupBy(keys, slotOf).values()) await redis.unlink(...some)
    }
  } finally {
    await closeRedis(redis)
  }
}

async function deleteSubjects(registry: string, namespace: string): Promise<void> {
  const ask = (path: string, method = 'GET') =>
    fetch(registry + path, { method, signal: AbortSignal.timeout(REQUEST_LIMIT_MS) })
  const subjects = (await (await ask('/subjects')).json()) as string[]
  const own = subjects.filter(subject => subject.startsWith(namespace))
  for (const subject of own) {
    const answer = await ask(`/subjects/${encodeURIComponent(subject)}`, 'DELETE')
    await answer.body?.cancel()
  }
}
