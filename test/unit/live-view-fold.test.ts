/** What changes come to in the table is claimed of the sink (integration/live-view.test.ts). */
import { expect } from 'chai'
import { openLiveFold } from '#streams/live-view/fold.ts'
import { decodeRow, encodeRow, headKey, itemKey, type LiveRow, listingKey } from '#streams/live-view/table.ts'
import { view } from '#streams/live-view/view.ts'
import { headAt } from '#streams/runner/redis-versions.ts'
import { recordOf } from '#test/fixtures/sink-records.ts'
import { marked } from '#test/harness/published-records.ts'

const PLACE = { partition: 2, version: 4, prefix: 't.' }
const text = '2|20000|3|9|USD'

describe('live view fold', () => {
  const key = itemKey(2, 4, 'ask', 7, 't.')
  const list = listingKey(2, 4, 'ask', 'a', 't.')
  it('a row of the changelog is listed or gone like a change', () => {
    const fold = openLiveFold(PLACE, undefined)
    const stored = { price: 2, currency: 'USD', price_micro_usd: 20_000, quantity: 3, seen_at: 9, url: null }
    fold.row({ side: 'ask', provider: 'a', itemId: 7, stored })
    fold.row({ side: 'ask', provider: 'a', itemId: 8, stored: null })
    expect(fold.take().writes).to.deep.equal([
      { command: 'HSET', key, args: ['a', text] },
      { command: 'HDEL', key: itemKey(2, 4, 'ask', 8, 't.'), args: ['a'] },
      { command: 'ZADD', key: list, args: ['7', '7'] },
      { command: 'ZREM', key: list, args: ['8'] },
    ])
  })

  it('refresh times only rise, and stay where nothing is said', () => {
    const head = { format: 2, version: 4, topicId: 't', next: 5, ask: { b: 20, c: 1 }, bid: { a: 2 }, succeeds: 3 }
    const fold = openLiveFold(PLACE, head)
    const refreshes = { a: [50, 40], b: [10] }
    for (const [provider, times] of Object.entries(refreshes))
      for (const last_updated of times) fold.apply(recordOf('RefreshMarked', marked({ provider, last_updated }), 5))
    const { own } = fold.take()
    expect(own).to.deep.equal({ ask: { b: 20, c: 1, a: 50 }, bid: { a: 2 }, succeeds: 3 })
    // The scripts of the readers find there what follows the offset.
    for (const [lack, member] of [
      [{ until: 12 }, 'until'],
      [{ fault: 'f' }, 'fault'],
      [{}, 'ask'],
    ] as const)
      expect(JSON.stringify(headAt(view, 4, { topicId: 'u', generation: 1, next: 9, ...lack }, own))).to.match(
        new RegExp(`^{"format":2,"version":4,"topicId":"u","generation":1,"next":9,"${member}":`),
      )
  })
})

describe('live keys', () => {
  it('of one partition share a hash tag, and contain their version', () => {
    const keys = [itemKey(3, 12, 'bid', 9, 't.'), listingKey(3, 12, 'ask', 'provider_01', 't.')]
    for (const key of keys) expect(key).to.match(/^t\.\{live:3\}:12:/)
    expect(headKey(3, 't.')).to.equal('t.{live:3}:head')
  })

  it('hold rows that read back as they were written, whatever the URL holds', () => {
    const rows: LiveRow[] = [
      { price: 1, currency: 'USD', priceMicroUsd: 10_000, quantity: 1, seenAt: 0, url: null },
      { price: 10 ** 13, currency: 'CNY', priceMicroUsd: 2 ** 52, quantity: 9, seenAt: 5, url: 'https://x/?a=1|2&b=|' },
      { price: 1, currency: 'USD', priceMicroUsd: 10_000, quantity: 1, seenAt: 0, url: '' },
    ]
    for (const one of rows) expect(decodeRow(encodeRow(one))).to.deep.equal(one)
    expect(() => decodeRow('1|2|3')).to.throw('not a live row')
  })
})
