/**
 * Removes what a test file has left on the servers, so that shared servers stay small.
 *
 * Deletes the namespace's topics, registry subjects, Redis keys and databases. Invariant: the production namespace is refused;
 * nothing outside the given namespace is touched.
 */
import { openWriter } from '#infra/clickhouse/clickhouse.ts'
import { dropClickhouse } from '#infra/clickhouse/set-up.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { deleteTopics } from '#infra/kafka/topic-admin.ts'
import { dropDatabase } from '#infra/postgres/migrate.ts'
import { databaseUrl } from '#infra/postgres/pool.ts'
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import type { Log } from '#infra/runtime/log.ts'

const REQUEST_LIMIT_MS = 10_000

/** Removes a namespace from all servers; its subjects, a call of the registry each, may stay where no run comes after. */
export async function removeNamespace(
  config: PlatformConfig,
  log: Log,
  { keepSubjects = false }: { keepSubjects?: boolean } = {},
): Promise<void> {
  if (config.namespace === '') throw new Error('the production namespace is not removed')
  await deleteTopics(connectKafka({ config, role: 'test', log }))
  if (!keepSubjects) await deleteSubjects(config.servers.schemaRegistry, config.namespace)
  await deleteKeys(config, log)
  const database = databaseName(config.namespace)
  await dropDatabase(databaseUrl(config.servers.postgres, database))
  const clickhouse = openWriter(config.servers.clickhouse, { database, name: 'test' })
  await dropClickhouse(clickhouse).finally(() => clickhouse.close())
}

async function deleteKeys({ servers, namespace }: PlatformConfig, log: Log): Promise<void> {
  const redis = await openRedis(servers.redis, { name: 'test', log })
  try {
    for await (const keys of redis.scanStream({ match: `${namespace}*`, count: 10_000 })) {
      if (keys.length > 0) await redis.unlink(...keys)
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
