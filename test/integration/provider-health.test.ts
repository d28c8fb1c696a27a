/**
 * Provider health and exchange rates in a real Redis: a kill between any two batches neither loses nor
 * doubles a record, and a paused owner writes nothing.
 */
import { expect } from 'chai'
import type { Redis } from '#infra/redis/redis.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import { openFxSink } from '#streams/fx/sink.ts'
import type { FxCurrent } from '#streams/fx/table.ts'
import { fxCurrentKey } from '#streams/fx/table.ts'
import { openHealthSink } from '#streams/provider-health/sink.ts'
import type { StoredHealth } from '#streams/provider-health/table.ts'
import { healthKey } from '#streams/provider-health/table.ts'
import { judgedRecords, positionAt, recordOf, write } from '#test/fixtures/sink-records.ts'
import { useClickhouse } from '#test/fixtures/use-clickhouse.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { modelHealth } from '#test/oracles/provider-health.ts'

describe('provider health and exchange rates in their stores', () => {
  const platform = useServers({ setUp: false })
  const clickhouse = useClickhouse(platform)
  let redis: Redis

  before(async () => {
    redis = await platform.openRedis()
  })

  const healthIn = async (prefix: string): Promise<Record<string, StoredHealth>> =>
    Object.fromEntries(
      Object.entries(await redis.hgetall(healthKey(prefix))).map(([key, text]) => [key, JSON.parse(text)]),
    )

  it('the health equals what all verdicts come to, however often the sink is opened again', async () => {
    const random = seededRandom('health')
    const prefix = `${platform.namespace}fold.`
    const log = judgedRecords(random, 600)
    let sink = await openHealthSink(redis, prefix, openMetrics())
    for (let at = 0; at < log.length; ) {
      const next = Math.min(log.length, at + random.integer(1, 40))
      await write(sink, log.slice(at, next))
      at = next
      if (random.chance(0.5)) sink = await openHealthSink(redis, prefix, openMetrics())
      if (random.chance(0.2)) {
        // Died before its write: what was applied is gone and comes again.
        for (const judged of log.slice(at, at + 5)) sink.apply(judged)
        sink = await openHealthSink(redis, prefix, openMetrics())
      }
      expect((await openHealthSink(redis, prefix, openMetrics())).position).to.deep.equal(positionAt(at))
    }
    expect(await healthIn(prefix)).to.deep.equal(modelHealth(log.map(({ value }) => value)))
  })

  it('the exchange rates end at the newest table, and each day keeps its newest, after replays', async () => {
    const random = seededRandom('rates')
    const prefix = `${platform.namespace}fx.`
    const day = 86_400_000
    const today = Math.floor(Date.now() / day) * day
    const tables = Array.from({ length: 60 }, (_, index) => ({
      as_of: today - random.integer(0, 9 * day),
      source: 's',
      rates: { USD: '1', EUR: `0.9${index}`, BTC: '0.0000123456789012345678' },
    }))
    const records = tables.map((table, offset) => recordOf('FxRatesPublished', table, offset, 'fx'))
    const sink = await openFxSink(redis, clickhouse.batcher, prefix)
    for (let at = 0; at < records.length; at += 6) await write(sink, records.slice(at, at + 6))
    await redis.del(fxCurrentKey(prefix))
    const again = await openFxSink(redis, clickhouse.batcher, prefix)
    expect(again.position, 'an incomplete view begins again').to.equal(undefined)
    for (let at = 0; at < records.length; at += 20) await write(again, records.slice(at, at + 20))
    const newest = tables.toSorted((a, b) => a.as_of - b.as_of)
    const current: FxCurrent = JSON.parse((await redis.get(fxCurrentKey(prefix))) ?? '{}')
    expect(current).to.deep.equal({ as_of: newest.at(-1)?.as_of, rates: newest.at(-1)?.rates })
    const rows = await clickhouse.writer.rows<{ day: string; rate: string }>(
      `SELECT day, rate FROM ${clickhouse.database}.fx_days FINAL WHERE currency = 'EUR'`,
    )
    const expected = new Map(newest.map(table => [new Date(table.as_of).toISOString().slice(0, 10), table.rates.EUR]))
    expect(new Map(rows.map(row => [row.day, row.rate]))).to.deep.equal(expected)
    expect(rows).to.have.length(expected.size)
  })
})
