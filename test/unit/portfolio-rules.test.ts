import { expect } from 'chai'
import { parseRate, type Rate, USD_RATE } from '#schemas/values/money.ts'
import {
  type ItemPerformance,
  openPerformanceFold,
  type RateOn,
  type Trade,
} from '#services/portfolios/ledger/performance.ts'
import { rowAtFault } from '#services/portfolios/ledger/rules.ts'
import { type SeededRandom, seededRandom } from '#test/harness/seeded-random.ts'
import { type Fraction, fractionOf } from '#test/oracles/exact-amounts.ts'
import { MODEL_DAYS } from '#test/oracles/ledger-model.ts'

describe('the row at fault', () => {
  const row = (number: number, type: 'buy' | 'sell', quantity: number, date: string) => ({
    row: number,
    type,
    quantity,
    date,
  })
  function faults(rows: ReturnType<typeof row>[], fault?: number, standing: [day: string, units: number][] = []): void {
    expect(rowAtFault(new Map(standing), rows)?.row).to.equal(fault)
  }

  it('is none, when a later row of the day buys', () => faults([row(2, 'sell', 1, 'b'), row(3, 'buy', 1, 'b')]))
  it('is the sell that takes the stock below zero', () =>
    faults([row(2, 'buy', 3, 'a'), row(3, 'sell', 2, 'b'), row(4, 'sell', 2, 'b')], 4))
  it('is a sell of the first short day, though its row is later', () =>
    faults([row(2, 'sell', 1, 'c'), row(3, 'sell', 1, 'b')], 3))
  it('is the last sell before a day that was sold out already', () =>
    faults([row(2, 'sell', 1, 'b')], 2, [
      ['a', 1],
      ['c', -1],
    ]))
  it('is none, when what is held already is enough', () => faults([row(2, 'sell', 1, 'b')], undefined, [['a', 1]]))
})

/** Exact sums of fractions, so that no step of the recomputation rounds. */
const times = (a: Fraction, b: Fraction): Fraction => ({ over: a.over * b.over, under: a.under * b.under })
const over = (a: Fraction, b: Fraction): Fraction => ({ over: a.over * b.under, under: a.under * b.over })
const whole = (value: bigint): Fraction => ({ over: value, under: 1n })
/** Half up, by counting. */
const rounded = ({ over: top, under }: Fraction): bigint => (top * 2n + under) / (under * 2n)

const RATES: Record<string, (date: string) => string> = {
  USD: () => '1',
  EUR: date => `0.8${date.slice(-2)}1`,
  BTC: date => `0.0000120${date.slice(-1)}7`,
}
const rateOn = (currency: string, date: string): Rate =>
  currency === 'USD' ? USD_RATE : (parseRate(RATES[currency]?.(date) as string) as Rate)

/** Walks unit by unit: each unit bought is a thing of its own with its place in its lot. */
function unitByUnit(trades: readonly Trade[], currency: string): Omit<ItemPerformance, 'itemId'> {
  const into = (amount: bigint, trade: Trade): bigint => {
    if (trade.currency === currency) return amount
    const [to, from] = [currency, trade.currency].map(code => fractionOf(RATES[code]?.(trade.date) as string)) as [
      Fraction,
      Fraction,
    ]
    return rounded(over(times(whole(amount), to), from))
  }
  const units: { basis: bigint }[] = []
  const sum = { quantity: 0, bought: 0n, sold: 0n, fees: 0n, costBasis: 0n, realisedProfit: 0n }
  for (const day of MODEL_DAYS) {
    for (const type of ['buy', 'sell'] as const) {
      for (const trade of trades.filter(one => one.date === day && one.type === type)) {
        const total = BigInt(trade.price) * BigInt(trade.quantity)
        const percent = over(times(whole(total), fractionOf(String(trade.fee_percentage ?? 0))), whole(100n))
        const fee = into(BigInt(trade.fee_amount ?? 0) + rounded(percent), trade)
        const amount = into(total, trade)
        sum.fees += fee
        if (type === 'buy') {
          sum.bought += amount
          const lot = amount + fee
          let before = 0n
          for (let unit = 1n; unit <= BigInt(trade.quantity); unit++) {
            const upTo = rounded(over(times(whole(lot), whole(unit)), whole(BigInt(trade.quantity))))
            units.push({ basis: upTo - before })
            before = upTo
          }
        } else {
          sum.sold += amount
          sum.realisedProfit += amount - fee
          for (let i = 0; i < trade.quantity; i++) sum.realisedProfit -= units.shift()?.basis ?? 0n
        }
      }
    }
  }
  return { ...sum, quantity: units.length, costBasis: units.reduce((all, { basis }) => all + basis, 0n) }
}

function randomTrades(random: SeededRandom): Trade[] {
  const held = new Map<number, number>()
  return Array.from({ length: random.integer(1, 40) }, () => random.pick(MODEL_DAYS))
    .sort()
    .map((date): Trade => {
      const item_id = random.integer(1, 3)
      const has = held.get(item_id) ?? 0
      const type = has > 0 && random.chance(0.45) ? 'sell' : 'buy'
      const quantity = type === 'sell' ? random.integer(1, has) : random.integer(1, 9)
      held.set(item_id, has + (type === 'buy' ? quantity : -quantity))
      return {
        item_id,
        type,
        quantity,
        date,
        price: random.integer(0, 100_000),
        currency: random.pick(['USD', 'EUR', 'BTC']),
        fee_amount: random.chance(0.4) ? random.integer(0, 500) : null,
        fee_percentage: random.chance(0.5) ? random.integer(0, 10_000) / 1_000 : null,
      }
    })
}

const inLedgerOrder = (trades: readonly Trade[]): Trade[] => {
  const rank = ({ type }: Trade): number => (type === 'buy' ? 0 : 1)
  return [...trades].sort((a, b) => a.item_id - b.item_id || a.date.localeCompare(b.date) || rank(a) - rank(b))
}

function performanceOf(trades: readonly Trade[], currency: string, rates: RateOn): readonly ItemPerformance[] {
  const fold = openPerformanceFold(currency, rates)
  const half = Math.floor(trades.length / 2)
  const sorted = inLedgerOrder(trades)
  for (const slice of [sorted.slice(0, half), sorted.slice(half)]) for (const _ of fold.add(slice));
  return fold.items
}

describe('performance', () => {
  it('pauses within a ledger of one item, and within a sell of all that it holds', () => {
    const about = { item_id: 1, price: 1, currency: 'USD', date: '2026-01-01', fee_amount: null, fee_percentage: null }
    const buys = Array.from({ length: 20_000 }, (): Trade => ({ ...about, type: 'buy', quantity: 1 }))
    const fold = openPerformanceFold('USD', rateOn)
    const pauses = (trades: Trade[]) => [...fold.add(trades)].length
    expect(pauses(buys)).to.be.at.least(20)
    // One trade used to take a second, in which nothing else was answered.
    expect(pauses([{ ...about, type: 'sell', quantity: 20_000, date: '2026-01-02' }])).to.be.at.least(20)
    expect(fold.items).to.deep.equal([
      { itemId: 1, quantity: 0, bought: 20_000n, sold: 20_000n, fees: 0n, costBasis: 0n, realisedProfit: 0n },
    ])
  })

  it('is what a walk unit by unit comes to, for 300 random ledgers in three currencies', () => {
    const random = seededRandom('performance')
    for (let i = 0; i < 300; i++) {
      // Entered in any order: days count, and on a day buys come first.
      const trades = random.shuffle(randomTrades(random))
      const currency = random.pick(['USD', 'EUR', 'BTC'])
      const found = performanceOf(trades, currency, rateOn)
      const ids = [...new Set(trades.map(trade => trade.item_id))].sort((a, b) => a - b)
      const wanted = ids.map(itemId => ({
        itemId,
        ...unitByUnit(
          trades.filter(trade => trade.item_id === itemId),
          currency,
        ),
      }))
      expect(found).to.deep.equal(wanted)
      for (const { bought, sold, fees, costBasis, realisedProfit } of found) {
        // Were everything sold at its cost, nothing would be earned.
        expect(realisedProfit + (0n - costBasis)).to.equal(sold - bought - fees)
      }
    }
  })
})
