/** Wrong rows are planted as a fault of a store would leave them; each must be found, and none after a rebuild. */
import { expect } from 'chai'
import { withAdmin } from '#infra/kafka/admin.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Redis } from '#infra/redis/redis.ts'
import { refreshJudged } from '#schemas/events/refresh-judged.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { findingsOf, verify as verifyView, viewOf } from '#services/cli/log-tools/views.ts'
import { openHealthReader } from '#streams/provider-health/reader.ts'
import { decodeHealth, encodeHealth, healthHeadKey } from '#streams/provider-health/table.ts'
import { parsePosition } from '#streams/runner/positions.ts'
import { readStoredViews } from '#streams/runner/table-versions.ts'
import { healthKeyNow } from '#test/fixtures/redis-views.ts'
import { judgedRecords } from '#test/fixtures/sink-records.ts'
import { useClickhouse } from '#test/fixtures/use-clickhouse.ts'
import { collectOutput, contextOf } from '#test/harness/collected-output.ts'
import { eventually } from '#test/harness/eventually.ts'
import { ratesRecord } from '#test/harness/published-records.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { modelHealth } from '#test/oracles/provider-health.ts'
import { ratesInForce } from '#test/oracles/rates-in-force.ts'

const VERDICTS = 300
const TABLES = 40

describe('exchange rates and provider health, verified and rebuilt', () => {
  const platform = useServers()
  const clickhouse = useClickhouse(platform)
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS
  const random = seededRandom('rates and health')
  const verdicts = judgedRecords(random, VERDICTS).map(({ value }) => value)
  const tables = Array.from({ length: TABLES }, (_, i) => ({
    asOf: today - random.integer(1, 9 * DAY_MS),
    EUR: `0.9${i}`,
  }))
  let kafka: KafkaConnection
  let redis: Redis

  before(async () => {
    kafka = platform.connect()
    redis = await platform.openRedis()
    const book = await platform.openPublisher(kafka, 'book')
    const ingest = await platform.openPublisher(kafka, 'ingest')
    const publish = async (judged: typeof verdicts, rates: typeof tables): Promise<void> => {
      const records = judged.map(value => [value.provider, kafka.codec.encode(refreshJudged, value)] as const)
      await book.send(records.map(([key, value]) => ({ topic: 'refreshes', key, value })))
      await ingest.send(rates.map(({ asOf, EUR }) => ratesRecord(kafka.codec, asOf, { EUR })))
    }
    const half = [VERDICTS / 2, TABLES / 2] as const
    await publish(verdicts.slice(0, half[0]), tables.slice(0, half[1]))
    const first = await platform.startRoles(['fx', 'provider-health'])
    await settled(...half)
    await first.stop()
    await publish(verdicts.slice(half[0]), tables.slice(half[1]))
    await ingest.send([ratesRecord(kafka.codec, today, { EUR: 'none' })])
    await platform.startRoles(['fx', 'provider-health', 'sales'])
    await settled()
  })

  const nextOfHealth = async () => parsePosition(await redis.get(healthHeadKey(platform.namespace)))?.next
  const nextOfRates = async () => (await readStoredViews(clickhouse.writer)).of('fx').positions[0]?.position.next

  const settled = (health = VERDICTS, fx = TABLES + 1) =>
    eventually(async () => {
      return (await nextOfHealth()) === health && (await nextOfRates()) === fx
    }, 'both views')

  const verify = (name: string) => findingsOf(platform.config, platform.log, name, () => undefined)
  const rebuild = (name: string) =>
    viewOf(name).rebuild({
      config: platform.config,
      log: platform.log,
      onProgress: () => undefined,
      signal: new AbortController().signal,
      acceptLoss: false,
    })
  const kinds = async (name: string) =>
    (await verify(name)).examples.map(({ kind, row }) => `${kind} ${row}`).toSorted()

  it('agree with the log as their roles leave them after a restart, and with a plain fold', async () => {
    const [health, fx] = [await verify('provider-health'), await verify('fx')]
    const days = new Set(tables.map(({ asOf }) => Math.floor(asOf / DAY_MS))).size
    expect(health).to.include({ compared: Object.keys(modelHealth(verdicts)).length, differences: 0 })
    expect(fx).to.include({ compared: 2 * days, differences: 0 })
    const newest = tables.toSorted((a, b) => a.asOf - b.asOf)
    expect(await ratesInForce(clickhouse.writer)).to.deep.equal({
      as_of: newest.at(-1)?.asOf,
      rates: { USD: '1', EUR: newest.at(-1)?.EUR },
    })
    const rows = await clickhouse.writer.rows<{ day: string; rate: string }>(
      `SELECT day, rate FROM ${clickhouse.database}.fx_days FINAL WHERE currency = 'EUR'`,
    )
    const closes = new Map(newest.map(({ asOf, EUR }) => [new Date(asOf).toISOString().slice(0, 10), EUR]))
    expect(new Map(rows.map(({ day, rate }) => [day, rate]))).to.deep.equal(closes)
    expect(rows).to.have.length(closes.size)
  })

  it('pass as a command, which used to pass too where it compared nothing', async () => {
    const failureOf = async (name: string) => {
      const output = collectOutput()
      const failure = await verifyView(contextOf(platform, output), name).catch(error => error)
      return [JSON.parse(output.text()).compared > 0, failure?.exitCode, failure?.message]
    }
    expect(await failureOf('fx')).to.deep.equal([true, undefined, undefined])
    await eventually(() => verify('sales'), 'the position of a view without rows')
    expect(await failureOf('sales')).to.deep.equal([false, 1, 'no row of sales was compared with the log'])
  })

  it('show each wrong row of health, and none after a rebuild, after which the role goes on', async () => {
    const key = await healthKeyNow(redis, platform.namespace)
    const [one = '', two = ''] = Object.keys(modelHealth(verdicts)).toSorted()
    const wrong = decodeHealth((await redis.hget(key, one)) ?? '')
    await redis.hset(key, one, encodeHealth({ ...wrong, consecutive_failures: wrong.consecutive_failures + 1 }))
    await redis.hset(key, 'provider_none', encodeHealth(wrong))
    await redis.hdel(key, two)
    expect(await kinds('provider-health')).to.deep.equal([
      ...[`different providers ${one}`, `missing providers ${two}`],
      'unexpected providers provider_none',
    ])
    const providers = Object.keys(modelHealth(verdicts)).length
    expect(await rebuild('provider-health')).to.deep.equal({ records: VERDICTS, carried: 0 })
    await settled()
    expect(await verify('provider-health')).to.include({ compared: providers, differences: 0 })
    const book = await platform.openPublisher(kafka, 'book')
    const last = { ...verdicts[0], provider: one, refresh_id: 'last', observed_at: 9_000, verdict: 'failed' } as const
    const value = kafka.codec.encode(refreshJudged, { ...verdicts[0], ...last } as never)
    await book.send([{ topic: 'refreshes', key: one, value }])
    await eventually(async () => (await nextOfHealth()) === VERDICTS + 1, 'one more verdict')
    const texts = Object.entries(await redis.hgetall(await healthKeyNow(redis, platform.namespace)))
    const stored = texts.map(([provider, text]) => [provider, JSON.parse(text)])
    expect(Object.fromEntries(stored)).to.deep.equal(modelHealth([...verdicts, { ...verdicts[0], ...last } as never]))
    expect(await verify('provider-health')).to.include({ differences: 0 })
  })

  it('keep, rebuilt, the health that rests on verdicts that the log no longer holds, and count it as not compared', async () => {
    const read = async () => redis.hgetall(await healthKeyNow(redis, platform.namespace))
    const before = await read()
    const readHealth = openHealthReader(redis, platform.namespace)
    const shown = await readHealth()
    const providers = Object.keys(before)
    const end = (await nextOfHealth()) ?? 0
    const lastApplied = (key: string, side: string) =>
      verdicts.findLastIndex(one => one.provider === key && one.side === side && one.verdict === 'applied')
    const sidesOf = (key: string) => [...new Set(verdicts.flatMap(one => (one.provider === key ? [one.side] : [])))]
    const appliedOf = (key: string) => sidesOf(key).map(side => lastApplied(key, side))
    const start = Math.min(...providers.flatMap(appliedOf).filter(at => at >= 0)) + 1
    const carried = providers.filter(key => appliedOf(key).some(at => at < start)).length
    const partitions = [{ partition: 0, offset: String(start) }]
    const topic = kafka.topicName('refreshes')
    await withAdmin(kafka, async admin => {
      // It knows then who leads the partition.
      await admin.fetchTopicOffsets(topic)
      await admin.deleteTopicRecords({ topic, partitions })
    })
    expect(await rebuild('provider-health')).to.deep.equal({ records: end - start, carried })
    expect([carried > 0, carried < providers.length]).to.deep.equal([true, true])
    expect(await read()).to.deep.equal(before)
    expect(await Promise.all([1, 2].map(() => readHealth()))).to.deep.equal([shown, shown])
    const { compared, differences, not_compared } = await verify('provider-health')
    expect([compared, differences, not_compared]).to.deep.equal([
      ...[providers.length - carried, 0],
      { 'rest on records that the log no longer holds': carried },
    ])
  })

  it('show each wrong rate, and none after a rebuild, after which the role goes on', async () => {
    const [first = today] = tables.map(({ asOf }) => Math.floor(asOf / DAY_MS)).toSorted((a, b) => a - b)
    const last = Math.max(...tables.map(({ asOf }) => Math.floor(asOf / DAY_MS)))
    const days = `${clickhouse.database}.fx_days`
    const euroOf = (day: number): string => `fx_days ('EUR','${new Date(day * DAY_MS).toISOString().slice(0, 10)}')`
    const insert = (day: number, currency: string, rate: string, asOf: number) =>
      clickhouse.writer.command(
        `INSERT INTO ${days} (day, currency, rate, as_of) SELECT toDate(${day}), '${currency}', '${rate}', fromUnixTimestamp64Milli(toInt64(${asOf}), 'UTC')`,
      )
    await insert(last, 'EUR', '0.5', (last + 1) * DAY_MS - 1)
    await insert(first - 3, 'EUR', '0.5', (first - 3) * DAY_MS)
    await clickhouse.writer.command(
      `ALTER TABLE ${days} DELETE WHERE toUInt32(day) = ${first} AND currency = 'EUR' SETTINGS mutations_sync = 2`,
    )
    expect(await kinds('fx')).to.deep.equal([
      ...[`different ${euroOf(last)}`, `missing ${euroOf(first)}`, `unexpected ${euroOf(first - 3)}`],
    ])
    expect(await rebuild('fx')).to.include({ records: TABLES + 1, carried: 0 })
    await eventually(async () => (await nextOfRates()) === TABLES + 1, 'the role to go on')
    expect(await verify('fx')).to.include({ differences: 0 })
    const ingest = await platform.openPublisher(kafka, 'ingest')
    await ingest.send([ratesRecord(kafka.codec, today, { EUR: '0.5' })])
    await eventually(async () => (await ratesInForce(clickhouse.writer))?.as_of === today, 'the next rates')
    expect(await verify('fx')).to.include({ differences: 0 })
  })
})
