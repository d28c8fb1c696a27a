/** What changes come to in the table is claimed of the sink (integration/live-view.test.ts). */
import { expect } from 'chai'
import { emptyBatch, foldMarker, foldRow, headAfter } from '#streams/live-view/step.ts'
import {
  decodeRow,
  encodeRow,
  generationOf,
  headKey,
  itemKey,
  type LiveRow,
  listingKey,
} from '#streams/live-view/table.ts'
import { writesOf } from '#streams/live-view/writes.ts'
import type { ViewPosition } from '#streams/runner/positions.ts'
import { marked } from '#test/harness/published-records.ts'

const PLACE = { partition: 2, generation: 4, prefix: 't.' }
const text = '2|20000|3|9|USD'

describe('live view step', () => {
  const key = itemKey(2, 4, 'ask', 7, 't.')
  const list = listingKey(2, 4, 'ask', 'a', 't.')
  it('a row of the changelog is listed or gone like a change', () => {
    const batch = emptyBatch()
    const stored = { price: 2, currency: 'USD', price_micro_usd: 20_000, quantity: 3, seen_at: 9, url: null }
    foldRow(batch, { side: 'ask', provider: 'a', itemId: 7, stored })
    foldRow(batch, { side: 'ask', provider: 'a', itemId: 8, stored: null })
    expect(writesOf(PLACE, batch)).to.deep.equal([
      { command: 'HSET', key, args: ['a', text] },
      { command: 'HDEL', key: itemKey(2, 4, 'ask', 8, 't.'), args: ['a'] },
      { command: 'ZADD', key: list, args: ['7', '7'] },
      { command: 'ZREM', key: list, args: ['8'] },
    ])
  })

  it('refresh times only rise, and stay where nothing is said', () => {
    const batch = emptyBatch()
    foldMarker(batch, marked({ provider: 'a', last_updated: 50 }))
    foldMarker(batch, marked({ provider: 'a', last_updated: 40 }))
    foldMarker(batch, marked({ provider: 'b', last_updated: 10 }))
    const head = { format: 1, generation: 3, topicId: 't', next: 5, ask: { b: 20, c: 1 }, bid: { a: 2 } }
    const after = { ask: { b: 20, c: 1, a: 50 }, bid: { a: 2 } }
    const textAt = (position: ViewPosition): string => JSON.stringify(headAfter(head, batch, position))
    expect(textAt({ topicId: 't', next: 9 })).to.equal(
      JSON.stringify({ format: 1, generation: 3, topicId: 't', next: 9, ...after }),
    )
    // The scripts of the readers find it there.
    expect(textAt({ topicId: 'u', next: 9, until: 12 })).to.equal(
      JSON.stringify({ format: 1, generation: 3, topicId: 'u', next: 9, until: 12, ...after }),
    )
  })
})

describe('live keys', () => {
  it('of one partition share a hash tag, and contain their generation', () => {
    const keys = [itemKey(3, 12, 'bid', 9, 't.'), listingKey(3, 12, 'ask', 'provider_01', 't.')]
    expect(keys.map(key => generationOf(key, 3, 't.'))).to.deep.equal([12, 12])
    expect(generationOf(headKey(3, 't.'), 3, 't.')).to.equal(undefined)
    for (const key of [...keys, headKey(3, 't.')]) expect(/\{[^}]*\}/.exec(key)?.[0]).to.equal('{live:3}')
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
