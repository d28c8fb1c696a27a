/**
 * History in a real ClickHouse: every change once, and each day's close as a plain fold has it.
 */
import { expect } from 'chai'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { openHistorySink } from '#streams/history/sink.ts'
import { changeOf, isChange, randomLog } from '#test/fixtures/book-change-sequences.ts'
import { changeRecord, write } from '#test/fixtures/sink-records.ts'
import { useClickhouse } from '#test/fixtures/use-clickhouse.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { type DayRow, selectDayRows } from '#test/oracles/provider-days.ts'

const DAY_MS = 86_400_000

/** The close of every item, side, provider and day, from the changes in their order. */
function daysOf(log: readonly BookChanged[]): DayRow[] {
  const days = new Map<string, DayRow>()
  for (const change of log) {
    const { item_id, side, provider, price, price_micro_usd, currency, quantity } = change
    const day = new Date(change.seen_at).toISOString().slice(0, 10)
    const key = [item_id, side, provider, day].join(' ')
    const before = days.get(key) ?? { price: null, price_micro_usd: null, currency: null }
    const priced = price === null ? before : { price, price_micro_usd, currency }
    const { price: close, price_micro_usd: micro, currency: code } = priced
    days.set(key, {
      item_id,
      side,
      provider,
      day,
      quantity,
      listed: price !== null,
      price: close,
      price_micro_usd: micro,
      currency: code,
    })
  }
  return [...days.values()].sort(byKey)
}

const keyOf = (row: DayRow) => [row.item_id, row.side, row.provider, row.day].join(' ')
const byKey = (a: DayRow, b: DayRow) => (keyOf(a) < keyOf(b) ? -1 : 1)

describe('history in ClickHouse', () => {
  const clickhouse = useClickhouse(useServers({ setUp: false }))
  const startMs = Math.floor(Date.now() / DAY_MS) * DAY_MS - 20 * DAY_MS

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
    const [one, other] = [openHistorySink(clickhouse.batcher), openHistorySink(clickhouse.batcher)]
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
    const log = [changeOf({ ...item, after: row }), changeOf({ ...item, before: row, after: { ...row, quantity: 1 } })]
    await write(
      openHistorySink(clickhouse.batcher),
      log.map((change, offset) => changeRecord(change, offset, 4)),
    )
    await clickhouse.writer.command(`OPTIMIZE TABLE ${clickhouse.database}.changes FINAL`)
    expect(await changesIn('partition = 4')).to.have.length(2)
  })

  it('closes a day that ends in a withdrawal at its last price, unlisted', async () => {
    const item = { provider: 'a', itemId: 77 }
    const [low, high] = [
      { micro: 20_000, quantity: 2 },
      { micro: 50_000, quantity: 1 },
    ]
    const log = [
      changeOf({ ...item, after: low, seenAt: startMs + 1 }),
      changeOf({ ...item, before: low, after: high, seenAt: startMs + 2 }),
      changeOf({ ...item, before: high, seenAt: startMs + 3 }),
    ]
    await write(
      openHistorySink(clickhouse.batcher),
      log.map((change, offset) => changeRecord(change, offset)),
    )
    const [day] = await daysIn('item_id = 77')
    expect(day).to.include({ price: 5, price_micro_usd: 50_000, listed: false, quantity: 0 })
  })

  it('keeps amounts near the largest that the platform takes exactly', async () => {
    const after = { micro: Number.MAX_SAFE_INTEGER - 1, quantity: 2 ** 31 - 1 }
    const change = changeOf({ provider: 'é-long-name', itemId: 88, after, seenAt: startMs + 1 })
    await write(openHistorySink(clickhouse.batcher), [
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
