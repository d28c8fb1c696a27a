import { expect } from 'chai'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import { meets, providersOf } from '#services/console/src/analytics/arbitrage-filters.ts'
import { queryOf, readBoardSearch } from '#services/console/src/board/board-search.ts'
import { readItemSearch } from '#services/console/src/item/item-search.ts'
import { formatAmount, formatPercent, hundredthsOf } from '#services/console/src/values/amounts.ts'
import { TIERS_OF } from '#services/console/src/values/tiers.ts'
import { formatAge, formatLocal, formatTick, formatUtc } from '#services/console/src/values/times.ts'
import { PINNED } from '#test/fixtures/pinned-operations.ts'

describe('values of the console', () => {
  it('show hundredths of any currency with its sign, else with its code', () => {
    const shown = [formatAmount(435_812, 'USD'), formatAmount(-5, 'EUR'), formatAmount(100_000_000, 'CHF')]
    expect(shown).to.deep.equal(['$4,358.12', '−€0.05', 'CHF 1,000,000.00'])
    expect([formatPercent(12.345), formatPercent(-0.5), formatPercent(0)]).to.deep.equal(['+12.3 %', '−0.5 %', '0.0 %'])
    expect(hundredthsOf('13.27')).to.equal(1_327)
  })

  it('show an age in the largest whole unit, and a moment in its zone and in UTC', () => {
    const ages = [-5, 59.9, 60, 3_599, 3_600, 86_399, 86_400].map(formatAge)
    expect(ages).to.deep.equal(['0 s', '59 s', '1 min', '59 min', '1 h', '23 h', '1 d'])
    const moment = Date.UTC(2026, 10, 21, 23, 4, 26)
    expect(formatUtc(moment)).to.equal('2026-11-21 23:04:26 UTC')
    expect(formatLocal(moment, 'Asia/Tokyo')).to.equal('22 Nov 2026, 08:04:26')
    const ticks = [true, false].map(isOfDays => formatTick(moment, isOfDays, 'Asia/Tokyo'))
    expect(ticks).to.deep.equal(['22 Nov', '08:04'])
  })
})

describe('addresses of the console', () => {
  it('keep what they know, and nothing else', () => {
    const search = {
      q: 'redline',
      wear: 'Field-Tested',
      phase: 'Phase 9',
      kind: '',
      sort: 'ask',
      way: 'sideways',
      x: 1,
    }
    expect(JSON.parse(JSON.stringify(readBoardSearch(search)))).to.deep.equal({
      q: 'redline',
      wear: 'Field-Tested',
      sort: 'ask',
    })
    const item = { interval: '2h', lines: 'RSI 14,none,SMA 20', sales: 'float' }
    expect(JSON.parse(JSON.stringify(readItemSearch(item)))).to.deep.equal({ lines: 'SMA 20,RSI 14', sales: 'float' })
  })

  it('sort names from A and values from the largest unless they say otherwise', () => {
    expect([queryOf({}).sort, queryOf({}).isDescending]).to.deep.equal(['volume', true])
    expect(queryOf({ sort: 'name' }).isDescending).to.equal(false)
    expect(queryOf({ sort: 'ask', way: 'up' }).isDescending).to.equal(false)
  })
})

describe('filters of arbitrage', () => {
  it('leave out what costs more than the capital, or has a leg that is too old', () => {
    const at = Date.UTC(2026, 10, 21)
    const old = (minutes: number): string => new Date(at - minutes * MINUTE_MS).toISOString()
    const pair = { buy_price_usd: '10.00', buy_last_updated: old(3), sell_last_updated: old(12) }
    expect(meets(pair, {}, at)).to.equal(true)
    expect([meets(pair, { capital: '10' }, at), meets(pair, { capital: '9.99' }, at)]).to.deep.equal([true, false])
    expect([meets(pair, { age: '12' }, at), meets(pair, { age: '11' }, at)]).to.deep.equal([true, false])
  })

  it('ask for the providers whose fee is no higher, and sell to those with bids alone', () => {
    const providers = {
      free: { name: 'Free', hasBids: false, buyFee: 0, sellFee: 0.02 },
      trading: { name: 'Trading', hasBids: true, buyFee: 0.07, sellFee: 0 },
      dear: { name: 'Dear', hasBids: true, buyFee: 0, sellFee: 0.15 },
    }
    const asked = (search: object) => (['buy', 'sell'] as const).map(side => providersOf(side, search, providers))
    expect(asked({})).to.deep.equal([undefined, undefined])
    expect(asked({ fee: '7' })).to.deep.equal([['free', 'trading', 'dear'], ['trading']])
    expect(asked({ fee: '6.99' })).to.deep.equal([['free', 'dear'], ['trading']])
    expect(asked({ sell: 'dear' })).to.deep.equal([undefined, ['dear']])
    expect(asked({ sell: 'dear', fee: '10' })).to.deep.equal([['free', 'trading', 'dear'], []])
    expect(asked({ buy: 'unknown' })).to.deep.equal([[], undefined])
  })
})

describe('what the console says of tiers', () => {
  it('is what the description of the API says', () => {
    const described = Object.values(PINNED.paths).flatMap(methods => Object.values(methods)) as unknown as {
      operationId: string
      'x-tiers': string[]
    }[]
    for (const [operation, tiers] of Object.entries(TIERS_OF))
      expect(described.find(({ operationId }) => operationId === operation)?.['x-tiers'], operation).to.deep.equal(
        tiers,
      )
  })
})
