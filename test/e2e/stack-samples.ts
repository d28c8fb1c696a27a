/**
 * One word on every server: written, acknowledged, read back.
 *
 * Reads and writes a topic, a subject, a key and two tables of its own names. It shows what a server keeps, so
 * writing must not return before each server has said that it has the word.
 */
import { expect } from 'chai'
import { openWriter } from '#infra/clickhouse/clickhouse.ts'
import { Kafka, logLevel } from '#infra/kafka/client/kafkajs.ts'
import { connectKafka } from '#infra/kafka/connection.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { createTopics } from '#infra/kafka/topic-admin.ts'
import { scanTopic } from '#infra/kafka/topic-scan.ts'
import { openDatabase } from '#infra/postgres/pool.ts'
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import { readConfig, type ServerAddresses } from '#infra/runtime/config.ts'
import { openLog } from '#infra/runtime/log.ts'
import type { ServerName } from '#infra/stack/running-servers.ts'
import { PLAIN_ACCESS } from '#test/harness/own-redis.ts'

/** The word. */
export const SAMPLE = 'kept'

const NAME = 'stack_sample'
const SCHEMA = { type: 'record', name: SAMPLE, fields: [{ name: 'price', type: 'long' }] }
const log = openLog({ level: 'error', name: 'stack-samples' })

/** Writes the word to every server and returns once each has acknowledged it. */
export async function writeSamples(addresses: ServerAddresses): Promise<void> {
  const kafka = kafkaClient(addresses)
  const admin = kafka.admin()
  await admin.connect()
  await createTopics(admin, [{ topic: NAME, numPartitions: 1 }])
  await admin.disconnect()
  const producer = kafka.producer()
  await producer.connect()
  await producer.send({ topic: NAME, messages: [{ value: SAMPLE }] })
  await producer.disconnect()

  const registered = await fetch(subjectVersions(addresses), {
    method: 'POST',
    headers: { 'content-type': 'application/vnd.schemaregistry.v1+json' },
    body: JSON.stringify({ schema: JSON.stringify(SCHEMA) }),
  })
  expect(registered.status, await registered.text()).to.equal(200)

  const redis = await openRedis({ servers: addresses, redis: PLAIN_ACCESS }, { name: NAME, log })
  await redis.set(NAME, SAMPLE)
  await closeRedis(redis)

  const clickhouse = openWriter(addresses.clickhouse, { database: 'marketlog', name: NAME })
  await clickhouse.command(`CREATE TABLE marketlog.${NAME} (word String) ENGINE = MergeTree ORDER BY word`)
  await clickhouse.command(`INSERT INTO marketlog.${NAME} VALUES ('${SAMPLE}')`)
  await clickhouse.close()

  const postgres = openDatabase(addresses.postgres, { name: NAME, log })
  await postgres.rows(`CREATE TABLE ${NAME} AS SELECT '${SAMPLE}' AS word`)
  await postgres.close()
}

/** The word as each server has it. */
export async function readSamples(addresses: ServerAddresses): Promise<Record<ServerName, unknown>> {
  const redis = await openRedis({ servers: addresses, redis: PLAIN_ACCESS }, { name: NAME, log })
  const clickhouse = openWriter(addresses.clickhouse, { database: 'marketlog', name: NAME })
  const postgres = openDatabase(addresses.postgres, { name: NAME, log })
  try {
    const schema = (await (await fetch(`${subjectVersions(addresses)}/latest`)).json()) as { schema: string }
    const columns = await clickhouse.rows<{ word: string }>(`SELECT word FROM marketlog.${NAME}`)
    const rows = await postgres.rows<{ word: string }>(`SELECT word FROM ${NAME}`)
    return {
      kafka: await firstRecord(addresses),
      schemaRegistry: JSON.parse(schema.schema).name,
      redis: await redis.get(NAME),
      clickhouse: columns[0]?.word,
      postgres: rows[0]?.word,
    }
  } finally {
    await closeRedis(redis)
    await clickhouse.close()
    await postgres.close()
  }
}

/** Read without a group: a broker that has just come back may still be loading its groups. */
async function firstRecord(addresses: ServerAddresses): Promise<string | undefined> {
  const config = readConfig({
    KAFKA_BROKERS: addresses.kafka.join(),
    SCHEMA_REGISTRY_URL: addresses.schemaRegistry,
    REDIS_URL: addresses.redis,
    CLICKHOUSE_URL: addresses.clickhouse,
    DATABASE_URL: addresses.postgres,
  })
  const reader = await openRangeReader(connectKafka({ config, role: NAME, log }), [NAME])
  try {
    for await (const [record] of scanTopic(reader, NAME, new Map([[0, { from: 0, to: 1 }]]))) {
      return record?.value?.toString()
    }
    return undefined
  } finally {
    await reader.close()
  }
}

function kafkaClient(addresses: ServerAddresses) {
  return new Kafka({ brokers: addresses.kafka, clientId: NAME, logLevel: logLevel.NOTHING })
}

function subjectVersions(addresses: ServerAddresses): string {
  return `${addresses.schemaRegistry}/subjects/${NAME}/versions`
}
