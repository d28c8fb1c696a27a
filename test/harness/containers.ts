/**
 * The servers of a test run in containers of their own, for machines where a Docker engine answers.
 *
 * Reads the images from infra/compose.yaml, so that both Docker ways run the same servers. Invariant: the containers
 * are removed by stop(), and by testcontainers' reaper when the run is killed; nothing of them is kept.
 */
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { GenericContainer, type StartedTestContainer, Wait } from 'testcontainers'
import type { RunningServers } from '#infra/stack/servers.ts'
import { freePort } from './listen.ts'

const START_LIMIT_MS = 180_000

/** Starts the five servers in containers; call it only where a Docker engine answers. */
export async function startContainers(): Promise<RunningServers> {
  const images = composeImages()
  const password = randomBytes(18).toString('hex')
  const readerPassword = randomBytes(18).toString('hex')
  const kafkaPort = await freePort()
  const starts = [
    kafka(image(images, 'kafka'), kafkaPort),
    schemaRegistry(image(images, 'schema-registry')),
    redis(image(images, 'redis')),
    clickhouse(image(images, 'clickhouse'), password, readerPassword),
    postgres(image(images, 'postgres'), password),
  ].map(container => container.withStartupTimeout(START_LIMIT_MS).start())
  const outcomes = await Promise.allSettled(starts)
  const started = outcomes.flatMap(outcome => (outcome.status === 'fulfilled' ? [outcome.value] : []))
  const stop = async () => {
    await Promise.all([...started].reverse().map(container => container.stop()))
  }
  const failed = outcomes.find(outcome => outcome.status === 'rejected')
  if (failed !== undefined) {
    await stop()
    throw failed.reason
  }
  const [, registry, cache, columns, rows] = started
  const at = (container: StartedTestContainer | undefined, port: number) =>
    `${container?.getHost()}:${container?.getMappedPort(port)}`
  return {
    addresses: {
      kafka: [`127.0.0.1:${kafkaPort}`],
      schemaRegistry: `http://${at(registry, 8080)}/apis/ccompat/v7`,
      redis: `redis://${at(cache, 6379)}`,
      clickhouse: `http://marketlog:${password}@${at(columns, 8123)}/marketlog`,
      clickhouseReadOnly: `http://marketlog_reader:${readerPassword}@${at(columns, 8123)}/marketlog`,
      postgres: `postgres://marketlog:${password}@${at(rows, 5432)}/marketlog`,
    },
    stop,
  }
}

function kafka(name: string, hostPort: number): GenericContainer {
  return (
    new GenericContainer(name)
      // Clients are sent to the advertised address, so the host's port is chosen before the start.
      .withExposedPorts({ container: 19092, host: hostPort })
      .withEnvironment({
        KAFKA_NODE_ID: '1',
        KAFKA_PROCESS_ROLES: 'broker,controller',
        KAFKA_CONTROLLER_QUORUM_VOTERS: '1@localhost:9093',
        KAFKA_CONTROLLER_LISTENER_NAMES: 'CONTROLLER',
        KAFKA_LISTENERS: 'PLAINTEXT://:19092,CONTROLLER://:9093',
        KAFKA_ADVERTISED_LISTENERS: `PLAINTEXT://127.0.0.1:${hostPort}`,
        KAFKA_LISTENER_SECURITY_PROTOCOL_MAP: 'PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT',
        KAFKA_AUTO_CREATE_TOPICS_ENABLE: 'false',
        KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR: '1',
        KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR: '1',
        KAFKA_TRANSACTION_STATE_LOG_MIN_ISR: '1',
        KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS: '0',
        KAFKA_MESSAGE_MAX_BYTES: '16777216',
        KAFKA_REPLICA_FETCH_MAX_BYTES: '16777216',
      })
      .withWaitStrategy(Wait.forLogMessage(/Kafka Server started/))
  )
}

function schemaRegistry(name: string): GenericContainer {
  return new GenericContainer(name)
    .withExposedPorts(8080)
    .withEnvironment({ APICURIO_STORAGE_KIND: 'sql', APICURIO_STORAGE_SQL_KIND: 'h2' })
    .withWaitStrategy(Wait.forHttp('/apis/ccompat/v7/subjects', 8080))
}

function redis(name: string): GenericContainer {
  return new GenericContainer(name)
    .withExposedPorts(6379)
    .withCommand(['redis-server', '--save', '', '--appendonly', 'yes', '--maxmemory-policy', 'noeviction'])
    .withWaitStrategy(Wait.forLogMessage(/Ready to accept connections/))
}

function clickhouse(name: string, password: string, readerPassword: string): GenericContainer {
  const compose = readFileSync(new URL('../../infra/compose.yaml', import.meta.url), 'utf8')
  const users = /clickhouse-reader:\n {4}content: \|\n([\s\S]*?)\n {2}clickhouse-limits:/.exec(compose)?.[1]
  if (users === undefined) throw new Error('infra/compose.yaml no longer holds the users of ClickHouse')
  return new GenericContainer(name)
    .withExposedPorts(8123)
    .withEnvironment({
      CLICKHOUSE_DB: 'marketlog',
      CLICKHOUSE_USER: 'marketlog',
      CLICKHOUSE_PASSWORD: password,
      READER_PASSWORD: readerPassword,
    })
    .withCopyContentToContainer([{ content: users, target: '/etc/clickhouse-server/users.d/marketlog-reader.xml' }])
    .withWaitStrategy(Wait.forHttp('/ping', 8123))
}

function postgres(name: string, password: string): GenericContainer {
  return (
    new GenericContainer(name)
      .withExposedPorts(5432)
      .withEnvironment({ POSTGRES_USER: 'marketlog', POSTGRES_DB: 'marketlog', POSTGRES_PASSWORD: password })
      // The image starts the server twice: once to initialise, once to stay.
      .withWaitStrategy(Wait.forLogMessage(/database system is ready to accept connections/, 2))
  )
}

function composeImages(): Map<string, string> {
  const compose = readFileSync(new URL('../../infra/compose.yaml', import.meta.url), 'utf8')
  const found = compose.matchAll(/^ {2}([a-z-]+):\n {4}image: (\S+)$/gm)
  return new Map([...found].map(match => [match[1] as string, match[2] as string]))
}

function image(images: Map<string, string>, service: string): string {
  const found = images.get(service)
  if (found === undefined) throw new Error(`infra/compose.yaml names no image of ${service}`)
  return found
}
