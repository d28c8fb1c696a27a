/** The rows that sales are stored as: integration/sales.test.ts. */
import { expect } from 'chai'
import type { SaleObserved } from '#schemas/events/sale-observed.ts'
import { rowOfSale } from '#streams/sales/fold.ts'
import { sold } from '#test/harness/published-records.ts'

const sale = sold({ currency: 'CNY', usd_rate: '7.25', charms: [] })

describe('a sale', () => {
  const becomes = (given: Partial<SaleObserved>, outcome: object, itemId: number | null = 1) =>
    expect(rowOfSale({ ...sale, ...given }, () => itemId ?? undefined, sale.observed_at)).to.deep.include(outcome)

  it('from the future is a dead letter, whether its name is known or not', () =>
    becomes({ sold_at: sale.observed_at + 600_001 }, { kind: 'deadLetter', reason: 'from_the_future' }, null))
  it('seen in the future is a dead letter', () =>
    becomes({ observed_at: sale.observed_at + 600_001 }, { kind: 'deadLetter', reason: 'from_the_future' }))
  it('of a clock that is ten minutes ahead is taken', () =>
    becomes({ sold_at: sale.observed_at + 600_000 }, { item_id: 1, sold_at: sale.observed_at + 600_000 }))
  it('of an unknown name is unresolved', () =>
    becomes({}, { kind: 'unresolved', name: sale.market_hash_name, phase: null, observedAt: sale.observed_at }, null))
  it('at no price is a dead letter', () => becomes({ price: 0 }, { reason: 'price_out_of_range' }))
  it('at a negative price is a dead letter', () => becomes({ price: -5 }, { reason: 'price_out_of_range' }))
  it('with an unusable rate is a dead letter', () => becomes({ usd_rate: 'NaN' }, { reason: 'unusable_rate' }))
  it('beyond what an amount can hold is a dead letter', () =>
    becomes({ price: 2 ** 52, usd_rate: '0.0000001' }, { reason: 'unusable_rate' }))
  it('in a time out of range is a dead letter', () => becomes({ sold_at: -1 }, { reason: 'time_out_of_range' }))
})
