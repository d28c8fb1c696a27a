/**
 * The harness itself: a namespace is set up, separate from others, and gone afterwards.
 */
import { expect } from 'chai'
import { openWriter } from '#infra/clickhouse/clickhouse.ts'
import { openCatalogReader } from '#infra/kafka/catalog-reader.ts'
import { connectKafka, type KafkaConnection } from '#infra/kafka/connection.ts'
import { setUpTopics } from '#infra/kafka/topic-admin.ts'
import { migrate } from '#infra/postgres/migrate.ts'
import { databaseUrl, openDatabase } from '#infra/postgres/pool.ts'
import { databaseName, type PlatformConfig } from '#infra/runtime/config.ts'
import { allTopics } from '#schemas/topics.ts'
import { eventually } from '#test/harness/eventually.ts'
import { removeNamespace } from '#test/harness/remove-namespace.ts'
import { smallCatalog } from '#test/harness/small-catalog.ts'
import { useServers } from '#test/harness/use-servers.ts'

const topicNames = async (kafka: KafkaConnection): Promise<string[]> => {
  const admin = kafka.newClient('names').admin()
  await admin.connect()
  return admin.listTopics().finally(() => admin.disconnect())
}

describe('a namespace that is set up', () => {
  const platform = useServers()

  it('has every topic of the catalogue and a catalog to read', async () => {
    const kafka = platform.connect()
    const names = await topicNames(kafka)
    for (const { name } of allTopics) expect(names).to.include(platform.namespace + name)
    const catalog = await openCatalogReader(kafka)
    expect(catalog.items().length).to.equal(smallCatalog().length)
    await catalog.close()
  })
})

describe('a role as a process', () => {
  const platform = useServers()

  it('serves, dies of a kill at once, and stops when it is asked to', async () => {
    const first = await platform.spawnRole('feed')
    const answer = await fetch(`${await first.operatorUrl()}/readyz`)
    expect([answer.status, await answer.json()]).to.deep.equal([200, { status: 'ready', roles: { feed: 'ready' } }])
    first.kill('SIGKILL')
    expect(await first.ended).to.deep.equal({ code: null, signal: 'SIGKILL' })

    const second = await platform.spawnRole('feed')
    await second.baseUrl()
    await second.stop()
    expect(await second.ended).to.deep.equal({ code: 0, signal: null })
    expect(second.lines().at(-1)).to.include('stopped')
  })

  it('is distinguished from a role that cannot start', async () => {
    const role = await platform.spawnRole('feed', { KAFKA_BROKERS: '' })
    role.expectEnd(/KAFKA_BROKERS/)
    let reason: unknown
    await role.baseUrl().catch(error => {
      reason = error
    })
    expect(String(reason)).to.include('feed ended').and.to.include('KAFKA_BROKERS')
  })
})

describe('a namespace that is removed', () => {
  const platform = useServers({ setUp: false })
  const connected = (config: PlatformConfig) => connectKafka({ config, role: 'test', log: platform.log })

  it("takes its topics, keys and database along and no other's", async () => {
    const { config, log } = platform
    const other = { ...config, namespace: `${config.namespace.slice(0, -1)}x.` }
    const redis = await platform.openRedis()
    const clickhouse = openWriter(config.servers.clickhouse, { database: 'default', name: 'test' })
    for (const one of [config, other]) {
      await setUpTopics(connected(one))
      await redis.set(`${one.namespace}key`, '1')
      await clickhouse.command(`CREATE DATABASE IF NOT EXISTS ${databaseName(one.namespace)}`)
      await migrate(databaseUrl(config.servers.postgres, databaseName(one.namespace)))
    }
    await removeNamespace(other, log)

    // The controller has deleted them; a busy broker learns of it later.
    const names = await eventually(async () => {
      const all = await topicNames(connected(config))
      return all.some(name => name.startsWith(other.namespace)) ? undefined : all
    }, 'its topics to be gone')
    expect(names.filter(name => name.startsWith(config.namespace))).to.have.length(allTopics.length)
    expect(await redis.exists(`${other.namespace}key`, `${config.namespace}key`)).to.equal(1)
    const databases = await clickhouse.rows<{ name: string }>('SHOW DATABASES')
    expect(databases.map(({ name }) => name)).to.include(databaseName(config.namespace))
    expect(databases.map(({ name }) => name)).not.to.include(databaseName(other.namespace))
    const postgres = openDatabase(databaseUrl(config.servers.postgres, 'postgres'), { name: 'test', log })
    const kept = await postgres.rows<{ datname: string }>('SELECT datname FROM pg_database')
    expect(kept.map(({ datname }) => datname)).to.include(databaseName(config.namespace))
    expect(kept.map(({ datname }) => datname)).not.to.include(databaseName(other.namespace))
    await postgres.close()
    await clickhouse.close()
  })
})
