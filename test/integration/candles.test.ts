/**
 * Candles in a real ClickHouse: read back and composed, they equal a fold moment by moment.
 */
import { expect } from 'chai'
import { atOnce } from '#infra/runtime/turns.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { CANDLE_INTERVALS } from '#schemas/values/candle-interval.ts'
import { type Candle, composeCandles, type StandingAsk } from '#streams/candles/compose.ts'
import { readCandleParts, readCandles, selectCandleStanding } from '#streams/candles/reader.ts'
import { openCandleSink } from '#streams/candles/sink.ts'
import { changeOf, isChange, randomLog } from '#test/fixtures/book-change-sequences.ts'
import { changeRecord, write } from '#test/fixtures/sink-records.ts'
import { useClickhouse } from '#test/fixtures/use-clickhouse.ts'
import { randomOf, type SeededRandom, seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { modelCandles } from '#test/oracles/candle-model.ts'

const DAY_MS = CANDLE_INTERVALS['1d'].ms
const ITEMS = 6

describe('candles in ClickHouse', () => {
  const platform = useServers({ setUp: false })
  const clickhouse = useClickhouse(platform)
  // Within the shortest retention, or ClickHouse may already have dropped what is compared.
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS
  const startMs = today - 5 * DAY_MS

  async function candlesOf(itemId: number, intervalMs: number, start = startMs - DAY_MS, end = today + DAY_MS) {
    const params = {
      interval_s: intervalMs / 1000,
      item_id: itemId,
      start_s: start / 1000,
      end_s: end / 1000,
      oldest_s: 0,
      // Both ways of reading have their share.
      fresh_s: (today - 3 * DAY_MS) / 1000,
      before_ms: start,
    }
    const parts = await readCandleParts(clickhouse.writer, params)
    const standing = await clickhouse.writer.rows<StandingAsk>(selectCandleStanding(clickhouse.database), params)
    return atOnce(composeCandles({ parts, standing }, { start, end, intervalMs }))
  }

  async function allCandles(base: number): Promise<Map<string, Candle[]>> {
    const all = new Map<string, Candle[]>()
    for (let item = 1; item <= ITEMS; item++) {
      for (const [name, { ms }] of Object.entries(CANDLE_INTERVALS)) {
        all.set(`${item} ${name}`, (await candlesOf(base + item, ms)).candles)
      }
    }
    return all
  }

  function modelled(log: readonly BookChanged[], base: number): Map<string, Candle[]> {
    const all = new Map<string, Candle[]>()
    for (let item = 1; item <= ITEMS; item++) {
      const own = log.filter(change => change.item_id === base + item)
      for (const [name, { ms }] of Object.entries(CANDLE_INTERVALS)) all.set(`${item} ${name}`, modelCandles(own, ms))
    }
    return all
  }

  /** Asks and bids of some items, under ids that no other test uses. */
  const logOf = (random: SeededRandom, base: number): BookChanged[] =>
    randomLog(random, { records: 1_500, items: ITEMS, providers: 4, startMs })
      .filter(isChange)
      .map(change => ({ ...change, item_id: change.item_id + base }))

  const asks = (log: readonly BookChanged[]) => log.filter(({ side }) => side === 'ask')

  const compared = async (random: SeededRandom, base: number): Promise<number> => {
    const log = logOf(random, base)
    await write(
      openCandleSink(clickhouse.batcher),
      log.map((change, offset) => changeRecord(change, offset)),
    )
    const found = await allCandles(base)
    expect(found).to.deep.equal(modelled(asks(log), base))
    await clickhouse.writer.command(`OPTIMIZE TABLE ${clickhouse.database}.candle_parts FINAL`)
    expect(await allCandles(base), 'once parts are merged').to.deep.equal(found)
    return [...found.values()].flat().length
  }

  it('equal a fold moment by moment, in each interval, and leave bids out', async () => {
    expect(await compared(randomOf(1), 100)).to.be.greaterThan(500)
    await compared(seededRandom('log'), 400)
  })

  it('of any window equal those of the whole, whatever is left unread around it', async () => {
    const random = seededRandom('windows')
    const log = logOf(random, 300)
    await write(
      openCandleSink(clickhouse.batcher),
      log.map((change, offset) => changeRecord(change, offset)),
    )
    const expected = modelled(asks(log), 300)
    const now = today + DAY_MS
    for (let each = 0; each < 40; each++) {
      const item = random.integer(1, ITEMS)
      const [name, { ms }] = random.pick(Object.entries(CANDLE_INTERVALS))
      const edge = () => Math.floor(random.integer(startMs - DAY_MS, now) / ms) * ms
      const [start = 0, end = 0] = [edge(), random.chance(0.4) ? now : edge()].sort((a, b) => a - b)
      const window = { start, end, intervalMs: ms }
      const found = await readCandles(clickhouse.writer, [300 + item], window, { fill: false, now })
      const whole = expected.get(`${item} ${name}`) ?? []
      expect(found, `${name} ${start} ${end}`).to.deep.equal(whole.filter(({ t }) => t >= start && t < end))
    }
  })

  it('know what was listed before a window of which no part is left', async () => {
    const item = { provider: 'a', itemId: 900 }
    const row = { micro: 70_000, quantity: 3 }
    const changes = [
      changeOf({ ...item, after: row, seenAt: today - 300 * DAY_MS }),
      changeOf({ provider: 'b', itemId: 900, after: { micro: 90_000, quantity: 1 }, seenAt: today + 5 }),
    ]
    await write(
      openCandleSink(clickhouse.batcher),
      changes.map((change, offset) => changeRecord(change, offset)),
    )
    await clickhouse.writer.command(`OPTIMIZE TABLE ${clickhouse.database}.candle_parts FINAL`)
    const left = `SELECT count() AS parts FROM ${clickhouse.database}.candle_parts WHERE item_id = 900 AND interval_s = 300`
    expect(await clickhouse.writer.rows(left), 'the old part has expired').to.deep.equal([{ parts: 1 }])
    const { opening, candles } = await candlesOf(900, 300_000, today, today + DAY_MS)
    expect(opening).to.deep.equal({ micro: 70_000, provider: 'a', quantity: 3 })
    expect(candles).to.have.length(1)
    expect(candles[0]).to.include({ o: 70_000, c: 70_000, q: 4, h: 90_000 })
  })

  it('make a dead letter of a change that no table can hold', () => {
    const sink = openCandleSink(clickhouse.batcher)
    const late = changeOf({ provider: 'a', itemId: 1, after: { micro: 1, quantity: 1 }, seenAt: 8_000_000_000_000 })
    expect(sink.apply(changeRecord(late, 0))).to.include({ kind: 'deadLetter', reason: 'time_out_of_range' })
    const nothing = { ...late, seen_at: today, price: null, price_micro_usd: null }
    expect(sink.apply(changeRecord(nothing, 0))).to.include({ kind: 'deadLetter', reason: 'contradiction' })
  })
})
