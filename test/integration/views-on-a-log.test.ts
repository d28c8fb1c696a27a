/**
 * The processors candles, history, provider-health and fx on a real log, restarted midway: each view equals
 * a plain fold of what was published, and what was published while no role read it.
 */
import { expect } from 'chai'
import { type ClickhouseWriter, openWriter } from '#infra/clickhouse/clickhouse.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { openPublisher, type Publisher } from '#infra/kafka/publisher.ts'
import type { Redis } from '#infra/redis/redis.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { atOnce } from '#infra/runtime/turns.ts'
import type { BookChanged, OfferUrlChanged } from '#schemas/events/book-changed.ts'
import { type RefreshJudged, refreshJudged } from '#schemas/events/refresh-judged.ts'
import { CANDLE_INTERVALS } from '#schemas/values/candle-interval.ts'
import { composeCandles, type StandingAsk } from '#streams/candles/compose.ts'
import { readCandleParts, selectCandleStanding } from '#streams/candles/reader.ts'
import { view as candlesView } from '#streams/candles/view.ts'
import { start as startFx } from '#streams/fx/main.ts'
import { fxCurrentKey } from '#streams/fx/table.ts'
import { view as historyView } from '#streams/history/view.ts'
import { start as startHealth } from '#streams/provider-health/main.ts'
import { healthKey, healthPositionKey } from '#streams/provider-health/table.ts'
import { parsePosition } from '#streams/runner/positions.ts'
import { isChange, isOfRow, randomLog } from '#test/fixtures/book-change-sequences.ts'
import { eventually } from '#test/harness/eventually.ts'
import { bookChangeRecord, ratesRecord } from '#test/harness/published-records.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { modelCandles } from '#test/oracles/candle-model.ts'
import { modelHealth } from '#test/oracles/provider-health.ts'

const DAY_MS = CANDLE_INTERVALS['1d'].ms
const ITEMS = 12

describe('views on a log', () => {
  const platform = useServers()
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS
  let kafka: KafkaConnection
  let book: Publisher
  let ingest: Publisher
  let clickhouse: ClickhouseWriter
  let redis: Redis

  before(async () => {
    const { config } = platform
    kafka = platform.connect()
    book = await openPublisher(kafka, 'book')
    ingest = await openPublisher(kafka, 'ingest')
    clickhouse = openWriter(config.servers.clickhouse, { database: databaseName(config.namespace), name: 'test' })
    redis = await platform.openRedis()
  })
  after(async () => {
    await book.close()
    await ingest.close()
    await clickhouse.close()
  })

  const judgedOf = (index: number): RefreshJudged => ({
    ...{ side: 'ask', provider: `provider_${index % 3}`, refresh_id: `r${index}`, observed_at: today + index },
    ...{ verdict: index % 4 === 0 ? 'failed' : 'applied', reason: null },
    ...{ added: 0, updated: 0, removed: 0, unresolved: 0, rejected: 0, currency: 'USD' },
    ...{ unique_items: index, total_offers: index, total_value: index, total_value_usd: index, catalog_version: null },
  })

  const publish = async (changes: readonly (BookChanged | OfferUrlChanged)[], verdicts: readonly RefreshJudged[]) => {
    await book.send([
      ...changes.map(change => bookChangeRecord(kafka.codec, change)),
      ...verdicts.map(judged => ({
        topic: 'refreshes' as const,
        key: judged.provider,
        value: kafka.codec.encode(refreshJudged, judged),
      })),
    ])
    const [asOf, CNY] = [today + verdicts.length, `7.${verdicts.length}`]
    await ingest.send([ratesRecord(kafka.codec, asOf, { CNY })])
    return { as_of: asOf, source: 'test', rates: { USD: '1', CNY } }
  }

  const candlesOf = async (itemId: number) => {
    const window = { start: today - 9 * DAY_MS, end: today + 9 * DAY_MS, intervalMs: CANDLE_INTERVALS['1h'].ms }
    const [start_s, end_s] = [window.start / 1000, window.end / 1000]
    const params = {
      interval_s: 3600,
      item_id: itemId,
      start_s,
      end_s,
      oldest_s: 0,
      fresh_s: end_s,
      before_ms: window.start,
    }
    const parts = await readCandleParts(clickhouse, params)
    const standing = await clickhouse.rows<StandingAsk>(selectCandleStanding(clickhouse.database), params)
    return atOnce(composeCandles({ parts, standing }, window)).candles
  }
  const changesStored = async () => {
    const [row] = await clickhouse.rows<{ rows: number }>(
      `SELECT count() AS rows FROM ${clickhouse.database}.changes FINAL`,
    )
    return row?.rows
  }

  it('equal a plain fold, over a restart, with what came while they were away', async () => {
    const random = seededRandom('views')
    const startMs = today - 6 * DAY_MS
    const log = randomLog(random, { records: 2_000, items: ITEMS, providers: 6, startMs }).filter(isOfRow)
    // Another URL alone is no change to either of them.
    const changes = log.filter(isChange)
    const verdicts = Array.from({ length: 40 }, (_, index) => judgedOf(index))
    const roles = [startFx, startHealth, historyView.start, candlesView.start]

    await publish(log.slice(0, 900), verdicts.slice(0, 15))
    const first = await platform.startRoles(roles)
    await eventually(
      async () => (await changesStored()) === log.slice(0, 900).filter(isChange).length,
      'the first changes',
    )
    await publish(log.slice(900, 1_000), [])
    await first.stop()
    const rates = await publish(log.slice(1_000), verdicts.slice(15))
    const second = await platform.startRoles(roles)
    await eventually(async () => (await changesStored()) === changes.length, 'all changes')
    await eventually(
      async () => parsePosition(await redis.get(healthPositionKey(platform.namespace)))?.next === verdicts.length,
      'all verdicts',
    )
    await eventually(
      async () => JSON.parse((await redis.get(fxCurrentKey(platform.namespace))) ?? '{}').as_of === rates.as_of,
      'the last rates',
    )
    for (let item = 1; item <= ITEMS; item++) {
      const own = changes.filter(({ item_id, side }) => item_id === item && side === 'ask')
      const expected = modelCandles(own, CANDLE_INTERVALS['1h'].ms)
      const isEqual = async () => expect(await candlesOf(item)).to.deep.equal(expected) !== undefined
      await eventually(isEqual, `candles of ${item}`)
    }
    await second.stop()
    expect([...first.failures, ...second.failures]).to.deep.equal([])
    const stored = Object.entries(await redis.hgetall(healthKey(platform.namespace)))
    expect(Object.fromEntries(stored.map(([provider, text]) => [provider, JSON.parse(text)]))).to.deep.equal(
      modelHealth(verdicts),
    )
  })
})
