/**
 * The store of decoded rows: what it keeps, what it forgets, and what stays the same object.
 */
import { expect } from 'chai'
import { SEPARATOR } from '#streams/live-view/reader-scripts.ts'
import { openRowStore } from '#streams/live-view/row-store.ts'
import { encodeRow, type LiveRow } from '#streams/live-view/table.ts'

const row = (price: number): LiveRow => ({
  price,
  currency: 'USD',
  priceMicroUsd: price * 10_000,
  quantity: 1,
  url: null,
  seenAt: 1_772_573_670_000,
})
const textOf = (rows: Record<string, number>): string =>
  Object.entries(rows)
    .flatMap(([provider, price]) => [provider, encodeRow(row(price))])
    .join(SEPARATOR)

describe('the store of live rows', () => {
  let clock = 0
  const now = () => clock

  it('keeps an item as of a stamp, in the order of its providers, and the rows whose text is unchanged', () => {
    const store = openRowStore(10, now)
    const first = store.put('a', '1:5', textOf({ p2: 7, p1: 5 }))
    expect(first.rows.map(({ provider }) => provider)).to.deep.equal(['p1', 'p2'])
    const second = store.put('a', '1:6', textOf({ p2: 8, p1: 5 }))
    expect(second).not.to.equal(first)
    expect(second.rows[0]).to.equal(first.rows[0])
    expect(second.rows[1]?.row.price).to.equal(8)
    expect(store.get('a')).to.equal(second)
  })

  it('moves the stamp of an item whose text is the same, and keeps all that was made of it', () => {
    const store = openRowStore(10, now)
    const item = store.put('a', '1:5', textOf({ p1: 5 }))
    item.made = { entries: [], head: undefined }
    expect(store.put('a', '1:6', textOf({ p1: 5 }))).to.equal(item)
    expect([item.stamp, item.made]).to.deep.equal(['1:6', { entries: [], head: undefined }])
  })

  it('gives the slot of the item that was asked for the longest ago to a new one, and none while all are asked for', () => {
    clock = 0
    const store = openRowStore(2, now)
    store.put('a', '1:1', textOf({ p1: 1 }))
    store.put('b', '1:1', textOf({ p1: 1 }))
    expect(store.put('c', '1:1', textOf({ p1: 1 })).rows).to.have.length(1)
    expect(store.get('c'), 'both others were asked for just now').to.equal(undefined)
    clock = 4_000
    expect(store.get('a')).not.to.equal(undefined)
    clock = 5_500
    store.put('c', '1:1', textOf({ p1: 1 }))
    expect([store.get('a'), store.get('b'), store.get('c')].map(Boolean)).to.deep.equal([true, false, true])
    expect(store.put('b', '1:1', textOf({ p1: 1 })).rows).to.have.length(1)
    expect(store.get('b'), 'the others are in use').to.equal(undefined)
  })
})
