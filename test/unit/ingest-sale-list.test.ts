import { expect } from 'chai'
import fc from 'fast-check'
import type { SaleObserved } from '#schemas/events/sale-observed.ts'
import { openSaleList, SALES_MAX } from '#services/ingest/sale-list.ts'
import { sold } from '#test/harness/published-records.ts'

/** The new sales of lists that follow one another, each list with what the one before has left. */
function newOf(lists: readonly (readonly SaleObserved[])[], resolve = (_: string): number | undefined => 1) {
  let hashes: Buffer | null = null
  return lists.map((sales): SaleObserved[] => {
    const list = openSaleList(hashes, resolve)
    const fresh = sales.filter(list.add)
    hashes = list.hashes()
    return fresh
  })
}
const saleAt = (sold_at: number) => sold({ sold_at, sale_id: `s${sold_at}` })

describe('a list of sales', () => {
  it('has as new what the last list before it that had any did not have', () => {
    const lists = fc.array(fc.array(fc.nat(9)), { maxLength: 8 })
    fc.assert(
      fc.property(lists, times => {
        let before: number[] = []
        const expected = times.map(own => {
          const fresh = [...new Set(own)].filter(at => !before.includes(at))
          if (own.length > 0) before = own
          return fresh
        })
        const found = newOf(times.map(own => own.map(saleAt)))
        expect(found.map(sales => sales.map(({ sold_at }) => sold_at))).to.deep.equal(expected)
      }),
    )
  })

  it('tells sales apart by what identifies them in the tables, and by nothing else', () => {
    const sale = sold()
    const others = [{ market_hash_name: 'b' }, { phase: 'Ruby' }, { sold_at: 1 }, { sale_id: 's2' }].map(sold)
    const again = [sold({ price: 1 }), sold({ observed_at: 1, usd_rate: '2' }), sold({ float: 0.5 })]
    expect(newOf([[sale], [...again, ...others]])[1]).to.deep.equal(others)
  })

  it('has a sale as new until its item is known', () => {
    const [known, unknown] = [sold({ market_hash_name: 'known' }), sold({ market_hash_name: 'unknown' })]
    const lists = newOf([[known, unknown], [known, unknown], [unknown]], name => (name === 'known' ? 1 : undefined))
    expect(lists).to.deep.equal([[known, unknown], [unknown], [unknown]])
  })

  it('remembers the newest sales of one that is too long', () => {
    const sales = Array.from({ length: SALES_MAX + 2 }, (_, at) => saleAt(at))
    const [first, second] = newOf([sales, sales.toReversed()])
    expect(first).to.deep.equal(sales)
    expect(second?.map(({ sold_at }) => sold_at)).to.deep.equal([1, 0])
  })
})
