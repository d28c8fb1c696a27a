import { expect } from 'chai'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { openCandleFold } from '#streams/candles/fold.ts'
import { readCandles } from '#streams/candles/reader.ts'
import { openHistoryFold } from '#streams/history/fold.ts'
import type { RowSink } from '#streams/runner/sink-runner.ts'
import { changeOf } from '#test/fixtures/book-change-sequences.ts'
import { changeRecord, write } from '#test/fixtures/sink-records.ts'
import { useClickhouse } from '#test/fixtures/use-clickhouse.ts'
import { useServers } from '#test/harness/use-servers.ts'

describe('changes in ClickHouse', () => {
  const clickhouse = useClickhouse(useServers({ setUp: false }))
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS
  const store = (sink: RowSink, log: readonly BookChanged[], partition = 0) =>
    write(
      sink,
      log.map((change, offset) => changeRecord(change, offset, partition)),
    )

  describe('as candles', () => {
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
      const candles = await readCandles(clickhouse.writer, [900], window, { fill: false, now: today })
      expect(candles).to.have.length(1)
      expect(candles[0]).to.include({ o: 70_000, c: 70_000, q: 4, h: 90_000 })
    })

    it('merge what several batches said of a bucket, in whatever order they came', async () => {
      const row = (micro: number, quantity: number) => ({ micro, quantity })
      const item = { provider: 'a', itemId: 901 }
      const steps = [row(70_000, 5), row(90_000, 4), row(60_000, 2)]
      const log = steps.map((after, at) => changeOf({ ...item, before: steps[at - 1], after, seenAt: today + at }))
      for (const offset of [1, 0, 2, 0])
        await write(openCandleFold(clickhouse.batcher), [changeRecord(log[offset] as BookChanged, offset)])
      const window = { start: today, end: today + DAY_MS, intervalMs: 300_000 }
      const [candle, ...others] = await readCandles(clickhouse.writer, [901], window, { fill: false, now: today })
      expect(candle).to.include({ o: 70_000, h: 90_000, l: 60_000, c: 60_000, v: 3, q: 2 })
      expect(others).to.deep.equal([])
    })

    it('begin with the ask that came first and end with the one that went last, where none is listed', async () => {
      const [low, high] = [70_000, 90_000].map(micro => ({ micro, quantity: 1 }))
      const log = [
        changeOf({ provider: 'b', itemId: 902, after: high, seenAt: today + 1 }),
        changeOf({ provider: 'a', itemId: 902, after: low, seenAt: today + 2 }),
        changeOf({ provider: 'a', itemId: 902, before: low, seenAt: today + 3 }),
        changeOf({ provider: 'b', itemId: 902, before: high, seenAt: today + 4 }),
      ]
      await store(openCandleFold(clickhouse.batcher), log)
      const window = { start: today, end: today + DAY_MS, intervalMs: 300_000 }
      const [candle] = await readCandles(clickhouse.writer, [902], window, { fill: false, now: today })
      expect(candle).to.include({ o: 90_000, l: 70_000, c: 90_000, q: 0 })
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
