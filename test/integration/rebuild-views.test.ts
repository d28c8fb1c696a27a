import { expect } from 'chai'
import { openReader } from '#infra/clickhouse/clickhouse.ts'
import { withAdmin } from '#infra/kafka/admin.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Redis } from '#infra/redis/redis.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { findingsOf, rebuild, verify } from '#services/cli/log-tools/views.ts'
import type { RoleName } from '#services/cli/roles.ts'
import { openLiveReader } from '#streams/live-view/reader.ts'
import { headKey, itemKey, type LiveHead, listingKey } from '#streams/live-view/table.ts'
import type { Findings } from '#streams/runner/findings.ts'
import { openWholeTables } from '#streams/runner/whole-tables.ts'
import { VIEWS } from '#streams/views.ts'
import { openSmallMarket, type SmallMarket } from '#test/fixtures/small-market.ts'
import { useClickhouse } from '#test/fixtures/use-clickhouse.ts'
import { collectOutput, contextOf } from '#test/harness/collected-output.ts'
import { eventually } from '#test/harness/eventually.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'

/** Of the market that is published here; rates, with which wrong rows of tables are found, health and movers have tests of their own. */
const ROLES: readonly RoleName[] = ['sales', 'history', 'candles', 'live-view', 'book']
const storedViews = VIEWS.filter(({ name, verify }) => verify && ROLES.some(role => role === name)).map(
  ({ name }) => name,
)

describe('rebuild and verify', () => {
  const platform = useServers()
  const clickhouse = useClickhouse(platform)
  let kafka: KafkaConnection
  let market: SmallMarket
  let redis: Redis
  let roles: StartedRoles

  before(async () => {
    kafka = platform.connect('ingest')
    market = await openSmallMarket(kafka)
    redis = await platform.openRedis()
    const first = await platform.startRoles(ROLES)
    for (let each = 0; each < 3; each++) await market.publishRound()
    await settled()
    await first.stop()
    for (let each = 0; each < 3; each++) await market.publishRound()
    roles = await platform.startRoles(ROLES)
    await settled()
  })
  after(() => market.close())

  const check = (name: string): Promise<Findings> => findingsOf(platform.config, platform.log, name, () => undefined)

  const rebuilt = async (name: string) => {
    const output = collectOutput()
    const options = { acceptLoss: false, signal: new AbortController().signal }
    await rebuild(contextOf(platform, output), name, options)
    return output.lines()[0]
  }

  const settled = () =>
    // Those named do not run here.
    platform.drained(ROLES)

  const countOf = async (table: string): Promise<number> => {
    const [row] = await clickhouse.writer.rows<{ rows: number }>(
      `SELECT count() AS rows FROM ${clickhouse.database}.${table} FINAL`,
    )
    return row?.rows ?? 0
  }

  for (const name of storedViews)
    it(`${name}: verify agrees after a restart of the roles`, async () => {
      const { compared, examples, not_compared } = await check(name)
      expect(compared).to.be.greaterThan(50)
      expect({ examples, not_compared }).to.deep.equal({ examples: [], not_compared: {} })
    })

  const head = async (partition: number): Promise<LiveHead> =>
    JSON.parse((await redis.get(headKey(partition, platform.namespace))) ?? '')

  /** How many asks some providers have in the table that is read, by provider and partition. */
  const countAsks = async (providers: readonly string[]): Promise<string> => {
    const counts: number[] = []
    for (const provider of providers) {
      for (let partition = 0; partition < ITEM_PARTITIONS; partition++) {
        const { version } = await head(partition)
        counts.push(await redis.zcard(listingKey(partition, version, 'ask', provider, platform.namespace)))
      }
    }
    return counts.filter(count => count > 0).join(' ')
  }

  it('live-view: a row changed by hand, one taken and one too many are found, and gone after a rebuild', async () => {
    const itemId = market.items[5]?.item_id ?? 0
    const partition = partitionOfItem(itemId)
    const { version } = await head(partition)
    const key = itemKey(partition, version, 'ask', itemId, platform.namespace)
    const [provider = '', ...others] = Object.keys(await redis.hgetall(key))
    await redis.hset(key, provider, '1|10000|1|1|USD')
    await redis.hdel(key, others[0] ?? '')
    await redis.hset(key, 'provider_41', '5|50000|1|1|USD')
    const output = collectOutput()
    const failure = await verify(contextOf(platform, output), 'live-view').catch(error => error)
    expect(failure.exitCode).to.equal(1)
    const found = output.lines().filter(({ kind }) => kind !== undefined)
    expect(found.map(({ kind, row }) => `${kind} ${row}`)).to.have.members([
      `different ask:item:${itemId} ${provider}`,
      `missing ask:item:${itemId} ${others[0]}`,
      `unexpected ask:item:${itemId} provider_41`,
    ])
    await rebuilt('live-view')
    await market.publishRound()
    await settled()
    expect((await check('live-view')).examples).to.deep.equal([])
    expect((await head(partition)).version).to.be.greaterThan(version)
  })

  it('live-view: bulk snapshots are there before, right after and long after the switch', async () => {
    const providers = ['provider_02', 'provider_05']
    const live = openLiveReader(redis, platform.namespace, { ask: providers, bid: providers })
    const pinned = async () =>
      (await live.pinSnapshot('ask', providers)).segments.map(({ entry }) => entry.lines).join(' ')
    const asks = await countAsks(providers)
    expect(asks).to.not.equal('')
    await eventually(async () => (await pinned()) === asks, 'snapshots')
    // Faster than snapshots are built.
    for (let each = 0; each < 2; each++) {
      await rebuilt('live-view')
      expect(await pinned()).to.equal(asks)
    }
    await market.publishRound()
    await settled()
    const then = await countAsks(providers)
    await eventually(async () => (await pinned()) === then, 'snapshots of the new table')
  })

  it('a view that is rebuilt is read and written meanwhile: nothing that it held is away, and nothing is lost', async () => {
    let isOver = false
    const before = await countOf('changes')
    const counts: number[] = []
    // A read between two rounds paces them: a rebuild shares the machine with what it runs against.
    const going = (async () => {
      while (!isOver) {
        await market.publishRound()
        counts.push(await countOf('changes'))
      }
    })()
    for (const name of ['history', 'candles', 'live-view', 'sales'] as const) await rebuilt(name)
    isOver = true
    await going
    await settled()
    for (const name of storedViews) expect((await check(name)).examples, name).to.deep.equal([])
    expect(Math.min(...counts)).to.be.at.least(before)
    const tables = await clickhouse.writer.rows<{ name: string }>(
      `SELECT name FROM system.tables WHERE database = '${clickhouse.database}' AND name LIKE 'sales_%'`,
    )
    expect(tables, 'one version alone').to.have.length(2)
  })

  it('a table that is dropped, or replaced by an empty one, is refused until the log has filled it again', async () => {
    const { database } = clickhouse
    const reader = openWholeTables(openReader(platform.config.servers.clickhouse, { database, name: 'test' }))
    const read = (table: string) => reader.rows<{ rows: number }>(`SELECT count() AS rows FROM ${database}.${table}`)
    const refused = (table: string) =>
      read(table)
        .then(() => undefined)
        .catch(({ message }: Error) => message)
    const before = { standing: await countOf('candle_standing'), days: await countOf('provider_days') }
    await roles.stop()
    await clickhouse.writer.command(`CREATE TABLE ${database}.empty AS ${database}.provider_days`)
    await clickhouse.writer.command(`EXCHANGE TABLES ${database}.empty AND ${database}.provider_days`)
    await clickhouse.writer.command(`DROP TABLE ${database}.candle_standing SYNC`)
    for (const table of ['candle_parts', 'changes']) expect(await refused(table), table).not.to.equal(undefined)
    roles = await platform.startRoles(ROLES)
    for (const table of ['candle_parts', 'changes'])
      await eventually(async () => (await refused(table)) === undefined, `${table} to be whole again`)
    expect({ standing: await countOf('candle_standing'), days: await countOf('provider_days') }).to.deep.equal(before)
    for (const name of ['candles', 'history'] as const) expect((await check(name)).examples, name).to.deep.equal([])
  })

  it('a rebuild carries over what the log no longer holds', async () => {
    const before = { parts: await countOf('candle_parts'), standing: await countOf('candle_standing') }
    const topic = kafka.topicName('bookChanges')
    await withAdmin(kafka, async admin => {
      const ends = await admin.fetchTopicOffsets(topic)
      const half = (offset: string) => String(Math.floor(Number(offset) / 2))
      const partitions = ends.map(({ partition, offset }) => ({ partition, offset: half(offset) }))
      await admin.deleteTopicRecords({ topic, partitions })
    })
    const result = await rebuilt('candles')
    expect(result.carried).to.be.greaterThan(0)
    expect({ parts: await countOf('candle_parts'), standing: await countOf('candle_standing') }).to.deep.equal(before)
    const after = await check('candles')
    expect(after.examples).to.deep.equal([])
    expect(after.not_compared['rest on records that the log no longer holds']).to.be.greaterThan(0)
  })
})
