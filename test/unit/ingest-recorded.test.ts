import { expect } from 'chai'
import { readRecordedText, statedTime } from '#services/ingest/connectors/recorded/map.ts'

const TIME = '2026-03-03T21:34:30.549Z'
const textOf = (prices: unknown, over: object = {}) =>
  JSON.stringify({ provider_feed: 'x', currency: 'EUR', refreshed_at: TIME, prices, ...over })

function entriesOf(text: string): unknown[] {
  const read = readRecordedText(text, 'USD')
  if (read.kind !== 'refresh') throw new Error(read.detail)
  return [...read.entries]
}

describe('ingest: recorded refreshes', () => {
  it('state their time and currency; the provider’s currency stands in', () => {
    expect(readRecordedText(textOf({}), 'USD')).to.include({ observedAt: Date.parse(TIME), currency: 'EUR' })
    expect(readRecordedText(textOf({}, { currency: undefined }), 'CNY')).to.include({ currency: 'CNY' })
    expect(readRecordedText(textOf({}, { currency: 'gbp' }), 'CNY')).to.include({ currency: 'GBP' })
  })

  it('a price alone means quantity 1; an object and an array of objects say more', () => {
    const url = 'https://a.example/1'
    const prices = {
      a: 5,
      b: { price: 6, quantity: 7, phase: 'Ruby', url },
      c: [{ price: 8, quantity: 2, phase: 'Phase 1' }, { price: 9 }, 10],
      d: [],
    }
    const bare = { phase: undefined, url: undefined }
    expect(entriesOf(textOf(prices))).to.deep.equal([
      { market_hash_name: 'a', price: 5, quantity: 1 },
      { market_hash_name: 'b', price: 6, quantity: 7, phase: 'Ruby', url },
      { ...bare, market_hash_name: 'c', price: 8, quantity: 2, phase: 'Phase 1' },
      { ...bare, market_hash_name: 'c', price: 9, quantity: 1 },
      { market_hash_name: 'c', price: 10, quantity: 1 },
    ])
  })

  it('what is no price keeps its index, to be rejected', () => {
    expect(entriesOf(textOf({ a: null, b: 'abc', c: -1 }))).to.deep.equal([
      { market_hash_name: 'a', price: null, quantity: 1 },
      { market_hash_name: 'b', price: 'abc', quantity: 1 },
      { market_hash_name: 'c', price: -1, quantity: 1 },
    ])
  })

  it('NaN and infinities as Python writes them spoil their entry, not the file', () => {
    const text = `{"refreshed_at":"${TIME}","prices":{"a":NaN,"NaN \\" Infinity":-Infinity,"c":3}}`
    expect(entriesOf(text)).to.deep.equal([
      { market_hash_name: 'a', price: 'NaN', quantity: 1 },
      { market_hash_name: 'NaN " Infinity', price: '-Infinity', quantity: 1 },
      { market_hash_name: 'c', price: 3, quantity: 1 },
    ])
  })

  const unreadable: [string, string, string][] = [
    ['a cut text', textOf({ a: 1 }).slice(0, -3), 'bad_json'],
    ['a cut text with NaN in it', `{"prices":{"a":NaN`, 'bad_json'],
    ['an empty text', '', 'bad_json'],
    ['null', 'null', 'bad_file'],
    ['no time', textOf({}, { refreshed_at: undefined }), 'bad_file'],
    ['an impossible time', textOf({}, { refreshed_at: '2026-02-30T00:00:00Z' }), 'bad_file'],
    ['prices as a list', textOf([1]), 'bad_file'],
    ['no prices', textOf(undefined), 'bad_file'],
    ['a number for a currency', textOf({}, { currency: 5 }), 'bad_file'],
  ]
  for (const [what, text, reason] of unreadable) {
    it(`${what} is ${reason}`, () => expect(readRecordedText(text, 'USD')).to.include({ kind: 'unreadable', reason }))
  }

  it('give their time from the beginning, also when the rest is missing', () => {
    expect(statedTime(textOf({ a: 1 }).slice(0, 100))).to.equal(Date.parse(TIME))
    expect(statedTime('{"prices":{"a":1')).to.equal(undefined)
  })
})
