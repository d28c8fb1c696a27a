/**
 * Changes in a real ClickHouse: as candles, which read back equal a fold moment by moment; and as history, each change once, and each
 * day's close as a plain fold has it.
 */

import { expect } from 'chai'
import { atOnce } from '#infra/runtime/turns.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { CANDLE_INTERVALS } from '#schemas/values/candle-interval.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { composeCandles, type StandingAsk } from '#streams/candles/compose.ts'
import { openCandleFold } from '#streams/candles/fold.ts'
import { readCandleParts, readCandles, selectCandleStanding } from '#streams/candles/reader.ts'
import { openHistoryFold } from '#streams/history/fold.ts'
import type { RowSink } from '#streams/runner/sink-runner.ts'
import { changeOf, isChange, randomLog } from '#test/fixtures/book-change-sequences.ts'
import { changeRecord, write } from '#test/fixtures/sink-records.ts'
import { useClickhouse } from '#test/fixtures/use-clickhouse.ts'
import { randomOf, seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { modelCandles } from '#test/oracles/candle-model.ts'
import { type DayRow, selectDayRows } from '#test/oracles/provider-days.ts'

const ITEMS = 6

/** The close of every item, side, provider and day, from the changes in their order. */
function daysOf(log: readonly BookChanged[]): DayRow[] {
  const days = new Map<string, DayRow>()
  for (const change of log) {
    const { item_id, side, provider, price, price_micro_usd, currency, quantity } = change
    const day = new Date(change.seen_at).toISOString().slice(0, 10)
    const key = [item_id, side, provider, day].join(' ')
    const before = days.get(key) ?? { price: null, price_micro_usd: null, currency: null }
    const close = price === null ? before : { price, price_micro_usd, currency }
    days.set(key, { ...close, item_id, side, provider, day, quantity, listed: price !== null })
  }
  return [...days.values()].sort(byKey)
}

const keyOf = (row: DayRow) => [row.item_id, row.side, row.provider, row.day].join(' ')
const byKey = (a: DayRow, b: DayRow) => (keyOf(a) < keyOf(b) ? -1 : 1)

describe('changes in ClickHouse', () => {
  const clickhouse = useClickhouse(useServers({ setUp: false }))
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS
  const store = (sink: RowSink, log: readonly BookChanged[], partition = 0) =>
    write(
      sink,
      log.map((change, offset) => changeRecord(change, offset, partition)),
    )

  describe('as candles', () => {
    // Within the shortest retention, or ClickHouse may already have dropped what is compared.
    const startMs = today - 5 * DAY_MS

    it('of any window equal a fold moment by moment, in each interval, whatever is left unread around it; bids are left out', async () => {
      const log = randomLog(randomOf(1), { records: 1_500, items: ITEMS, providers: 4, startMs }).filter(isChange)
      await store(openCandleFold(clickhouse.batcher), log)
      const asks = Map.groupBy(
        log.filter(({ side }) => side === 'ask'),
        ({ item_id }) => item_id,
      )
      const [oldest, now] = [startMs - DAY_MS, today + DAY_MS]
      const random = seededRandom('windows')
      const intervals = Object.values(CANDLE_INTERVALS)
      const whole = [...asks.keys()].flatMap(item => intervals.map(({ ms }) => ({ item, ms, edges: [oldest, now] })))
      const some = Array.from({ length: 40 }, () => {
        const { ms } = random.pick(intervals)
        const edge = () => Math.floor(random.integer(oldest, now) / ms) * ms
        const edges = [edge(), random.chance(0.4) ? now : edge()].sort((a, b) => a - b)
        return { item: random.integer(1, ITEMS), ms, edges }
      })
      const expectFolded = async (): Promise<number> => {
        let candles = 0
        for (const { item, ms, edges } of [...whole, ...some]) {
          const [start = 0, end = 0] = edges
          const found = await readCandles(
            clickhouse.writer,
            [item],
            { start, end, intervalMs: ms },
            { fill: false, now },
          )
          const expected = modelCandles(asks.get(item) ?? [], ms).filter(({ t }) => t >= start && t < end)
          expect(found, `${item} ${ms} ${start} ${end}`).to.deep.equal(expected)
          candles += found.length
        }
        return candles
      }
      expect(await expectFolded()).to.be.greaterThan(500)
      await clickhouse.writer.command(`OPTIMIZE TABLE ${clickhouse.database}.candle_parts FINAL`)
      await expectFolded()
    })

    it('know what was listed before a window of which no part is left', async () => {
      const item = { provider: 'a', itemId: 900 }
      const row = { micro: 70_000, quantity: 3 }
      const changes = [
        changeOf({ ...item, after: row, seenAt: today - 300 * DAY_MS }),
        changeOf({ provider: 'b', itemId: 900, after: { micro: 90_000, quantity: 1 }, seenAt: today + 5 }),
      ]
      await store(openCandleFold(clickhouse.batcher), changes)
      await clickhouse.writer.command(`OPTIMIZE TABLE ${clickhouse.database}.candle_parts FINAL`)
      const left = `SELECT count() AS parts FROM ${clickhouse.database}.candle_parts WHERE item_id = 900 AND interval_s = 300`
      expect(await clickhouse.writer.rows(left), 'the old part has expired').to.deep.equal([{ parts: 1 }])
      const window = { start: today, end: today + DAY_MS, intervalMs: 300_000 }
      const [start_s, end_s] = [window.start / 1000, window.end / 1000]
      const params = { item_id: 900, interval_s: 300, start_s, end_s, oldest_s: 0, fresh_s: start_s, before_ms: today }
      const parts = await readCandleParts(clickhouse.writer, params)
      const standing = await clickhouse.writer.rows<StandingAsk>(selectCandleStanding(clickhouse.database), params)
      const { opening, candles } = atOnce(composeCandles({ parts, standing }, window))
      expect(opening).to.deep.equal({ micro: 70_000, provider: 'a', quantity: 3 })
      expect(candles).to.have.length(1)
      expect(candles[0]).to.include({ o: 70_000, c: 70_000, q: 4, h: 90_000 })
    })

    it('make a dead letter of a change that no table can hold', () => {
      const sink = openCandleFold(clickhouse.batcher)
      const late = changeOf({ provider: 'a', itemId: 1, after: { micro: 1, quantity: 1 }, seenAt: 8_000_000_000_000 })
      expect(sink.apply(changeRecord(late, 0))).to.include({ kind: 'deadLetter', reason: 'time_out_of_range' })
      const nothing = { ...late, seen_at: today, price: null, price_micro_usd: null }
      expect(sink.apply(changeRecord(nothing, 0))).to.include({ kind: 'deadLetter', reason: 'contradiction' })
    })
  })

  describe('as history', () => {
    const startMs = today - 20 * DAY_MS

    const changesIn = (condition: string) =>
      clickhouse.writer.rows<object>(
        `SELECT * REPLACE (toUnixTimestamp64Milli(seen_at) AS seen_at) FROM ${clickhouse.database}.changes FINAL
        WHERE ${condition} ORDER BY offset`,
      )
    const daysIn = async (condition: string) =>
      (await clickhouse.writer.rows<DayRow>(selectDayRows(clickhouse.database, condition))).sort(byKey)

    const rowOf = (change: BookChanged, offset: number) => {
      const { refresh_id, url, source_partition, source_offset, source_index, ...row } = change
      return { ...row, partition: 3, offset }
    }

    it('holds each change once and each day as it closed, after replays in any order by two writers', async () => {
      const random = seededRandom('history')
      const log = randomLog(random, { records: 4_000, items: 30, providers: 5, startMs }).filter(isChange)
      const records = log.map((change, offset) => changeRecord(change, offset, 3))
      const [one, other] = [openHistoryFold(clickhouse.batcher), openHistoryFold(clickhouse.batcher)]
      const pieces = [records.slice(0, 1_200), records.slice(1_200, 3_000), records.slice(3_000), records.slice(700)]
      for (const piece of random.shuffle(pieces)) await Promise.all([write(one, piece), write(other, piece)])
      expect(await changesIn('partition = 3')).to.deep.equal(log.map(rowOf))
      expect(await daysIn('item_id <= 30')).to.deep.equal(daysOf(log))
      await clickhouse.writer.command(`OPTIMIZE TABLE ${clickhouse.database}.provider_days FINAL`)
      expect(await daysIn('item_id <= 30')).to.deep.equal(daysOf(log))
    })

    it('keeps two changes of a provider that pushes them within a millisecond', async () => {
      const item = { provider: 'pusher', itemId: 66, seenAt: startMs + 7 }
      const row = { micro: 20_000, quantity: 2 }
      const log = [
        changeOf({ ...item, after: row }),
        changeOf({ ...item, before: row, after: { ...row, quantity: 1 } }),
      ]
      await store(openHistoryFold(clickhouse.batcher), log, 4)
      await clickhouse.writer.command(`OPTIMIZE TABLE ${clickhouse.database}.changes FINAL`)
      expect(await changesIn('partition = 4')).to.have.length(2)
    })

    it('keeps amounts near the largest that the platform takes exactly', async () => {
      const after = { micro: Number.MAX_SAFE_INTEGER - 1, quantity: 2 ** 31 - 1 }
      const change = changeOf({ provider: 'é-long-name', itemId: 88, after, seenAt: startMs + 1 })
      await write(openHistoryFold(clickhouse.batcher), [
        changeRecord({ ...change, price: 10 ** 13, usd_rate: '0.000000000012345678901234' }, 0, 9),
      ])
      const [row] = await changesIn('partition = 9')
      expect(row).to.include({
        price: 10 ** 13,
        price_micro_usd: Number.MAX_SAFE_INTEGER - 1,
        quantity: 2 ** 31 - 1,
        provider: 'é-long-name',
        usd_rate: '0.000000000012345678901234',
      })
    })
  })
})
