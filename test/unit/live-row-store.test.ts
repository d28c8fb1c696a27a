import { expect } from 'chai'
import { openRowStore } from '#streams/live-view/row-store.ts'
import { encodeRow, SEPARATOR } from '#streams/live-view/table.ts'

const textOf = (price: number): string => {
  const row = { price, priceMicroUsd: price * 10_000, quantity: 1, seenAt: 1, currency: 'USD', url: null }
  return ['provider_01', encodeRow(row)].join(SEPARATOR)
}

describe('the store of decoded rows', () => {
  it('keeps as many items as it has room for, those that were asked for last', () => {
    const store = openRowStore(2)
    for (const key of ['a', 'b']) store.put(key, '1', textOf(1))
    store.get('a')
    store.put('c', '1', textOf(1))
    expect(['a', 'b', 'c'].map(key => store.get(key) !== undefined)).to.deep.equal([true, false, true])
  })

  it('keeps nothing of items that pass, and pushes nothing out for them, but what it has of them stays current', () => {
    const store = openRowStore(2)
    for (const key of ['a', 'b']) store.put(key, '1', textOf(1))
    expect(store.put('c', '1', textOf(3), true).rows[0]?.[1].price).to.equal(3)
    store.put('a', '2', textOf(2), true)
    expect(['a', 'b', 'c'].map(key => store.get(key)?.rows[0]?.[1].price)).to.deep.equal([2, 1, undefined])
  })
})
