/** The table that changes lead to: integration/live-view.test.ts. */
import { expect } from 'chai'
import { openLiveFold } from '#streams/live-view/fold.ts'
import { decodeRow, encodeRow, type LiveRow } from '#streams/live-view/table.ts'
import { view } from '#streams/live-view/view.ts'
import { headAt } from '#streams/runner/redis-versions.ts'
import { recordOf } from '#test/fixtures/sink-records.ts'
import { marked } from '#test/harness/published-records.ts'

const PLACE = { partition: 2, version: 4, prefix: 't.' }

describe('live view fold', () => {
  it('refresh times only rise, and stay where nothing is said', () => {
    const head = { format: 2, version: 4, topicId: 't', next: 5, ask: { b: 20, c: 1 }, bid: { a: 2 }, succeeds: 3 }
    const fold = openLiveFold(PLACE, head)
    const refreshes = { a: [50, 40], b: [10] }
    for (const [provider, times] of Object.entries(refreshes))
      for (const last_updated of times) fold.apply(recordOf('RefreshMarked', marked({ provider, last_updated }), 5))
    const { own } = fold.drain()
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

describe('live rows', () => {
  it('read back as they were written, whatever the URL holds', () => {
    const rows: LiveRow[] = [
      { price: 1, currency: 'USD', priceMicroUsd: 10_000, quantity: 1, seenAt: 0, url: null },
      { price: 10 ** 13, currency: 'CNY', priceMicroUsd: 2 ** 52, quantity: 9, seenAt: 5, url: 'https://x/?a=1|2&b=|' },
      { price: 1, currency: 'USD', priceMicroUsd: 10_000, quantity: 1, seenAt: 0, url: '' },
    ]
    for (const one of rows) expect(decodeRow(encodeRow(one))).to.deep.equal(one)
    expect(() => decodeRow('1|2|3')).to.throw('not a live row')
  })
})
