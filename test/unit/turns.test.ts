import { expect } from 'chai'
import { inTurns } from '#infra/runtime/turns.ts'
import { composeCandles } from '#streams/candles/compose.ts'
import { composeChart } from '#streams/history/chart.ts'
import { partTable } from '#test/fixtures/part-table.ts'

const DAYS = 3_650
const PROVIDERS = Array.from({ length: 41 }, (_, at) => `provider_${String(at + 1).padStart(2, '0')}`)

describe('work that pauses', () => {
  it('gives others their turn at each pause, and its result at the end', async () => {
    const seen: string[] = []
    function* work(): Generator<undefined, string, void> {
      for (const part of ['one', 'two']) {
        seen.push(part)
        setImmediate(() => seen.push(`after ${part}`))
        yield
      }
      return 'result'
    }
    expect(await inTurns(work())).to.equal('result')
    expect(seen).to.deep.equal(['one', 'after one', 'two', 'after two'])
  })

  it('is that of a chart of ten years and 41 providers', () => {
    const rows = PROVIDERS.length * DAYS
    const one = Array<number>(rows).fill(1)
    const days = {
      provider: Array.from({ length: rows }, (_, row) => PROVIDERS[Math.floor(row / DAYS)] as string),
      item_id: one,
      day: Array.from({ length: rows }, (_, row) => row % DAYS),
      is_priced: one,
      price: one,
      price_micro_usd: one,
      currency: Array<string>(rows).fill('USD'),
      listed: one,
      quantity: one,
    }
    const work = composeChart(days, { start_day: 0, end_day: DAYS })
    expect([...work].length).to.be.at.least(6)
  })

  it('is that of candles of a week of five minutes and 41 providers', () => {
    const edge = { standing: true, micro: 1_000, quantity: 1, at: 0 }
    const intervalMs = 300_000
    const parts = Array.from({ length: 41 * 2_016 }, (_, at) => ({
      bucket: Math.floor(at / 41) * intervalMs,
      provider: PROVIDERS[at % 41] as string,
      opening: edge,
      closing: edge,
      low: 1_000,
      high: 1_000,
      falls: 0,
    }))
    const window = { start: 0, end: 2_016 * intervalMs, intervalMs }
    expect([...composeCandles({ parts: partTable(parts), standing: [] }, window)].length).to.be.at.least(3)
  })
})
