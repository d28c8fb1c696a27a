/**
 * A sale in a provider's words becomes a row, or says why not.
 */
import { expect } from 'chai'
import type { SaleObserved } from '#schemas/events/sale-observed.ts'
import { rowOfSale } from '#streams/sales/step.ts'

const sale: SaleObserved = {
  provider: 'provider_02',
  sale_id: 's1',
  market_hash_name: 'AK-47 | Redline (Field-Tested)',
  phase: null,
  price: 725,
  currency: 'CNY',
  usd_rate: '7.25',
  sold_at: 1_772_582_400_000,
  float: null,
  paint_seed: null,
  stickers: null,
  charms: [],
  inspect_in_game: null,
  screenshot_front: null,
  screenshot_back: null,
  observed_at: 1_772_582_500_000,
}

describe('a sale', () => {
  it('becomes a row of its item, in micro-dollars at its own rate', () => {
    expect(rowOfSale(sale, () => 42, sale.observed_at)).to.include({
      item_id: 42,
      price: 725,
      price_micro_usd: 1_000_000,
    })
  })

  it('distinguishes a provider that says nothing of stickers from an item without any', () => {
    expect(rowOfSale(sale, () => 42, sale.observed_at)).to.deep.include({
      has_stickers: false,
      stickers: [],
      has_charms: true,
      charms: [],
    })
  })

  const cases: { name: string; given: Partial<SaleObserved>; itemId?: number; outcome: object }[] = [
    {
      name: 'from the future is a dead letter, whether its name is known or not',
      given: { sold_at: sale.observed_at + 600_001 },
      outcome: { kind: 'deadLetter', reason: 'from_the_future' },
    },
    {
      name: 'seen in the future is a dead letter',
      given: { observed_at: sale.observed_at + 600_001 },
      itemId: 1,
      outcome: { kind: 'deadLetter', reason: 'from_the_future' },
    },
    {
      name: 'of a clock that is ten minutes ahead is taken',
      given: { sold_at: sale.observed_at + 600_000 },
      itemId: 1,
      outcome: { item_id: 1, sold_at: sale.observed_at + 600_000 },
    },
    {
      name: 'of an unknown name is unresolved',
      given: {},
      outcome: { kind: 'unresolved', name: sale.market_hash_name, phase: null, observedAt: sale.observed_at },
    },
    { name: 'at no price is a dead letter', given: { price: 0 }, itemId: 1, outcome: { reason: 'price_out_of_range' } },
    {
      name: 'at a negative price is a dead letter',
      given: { price: -5 },
      itemId: 1,
      outcome: { reason: 'price_out_of_range' },
    },
    {
      name: 'with an unusable rate is a dead letter',
      given: { usd_rate: 'NaN' },
      itemId: 1,
      outcome: { reason: 'unusable_rate' },
    },
    {
      name: 'beyond what an amount can hold is a dead letter',
      given: { price: 2 ** 52, usd_rate: '0.0000001' },
      itemId: 1,
      outcome: { reason: 'unusable_rate' },
    },
    {
      name: 'in a time out of range is a dead letter',
      given: { sold_at: -1 },
      itemId: 1,
      outcome: { reason: 'time_out_of_range' },
    },
  ]
  for (const { name, given, itemId, outcome } of cases) {
    it(name, () => expect(rowOfSale({ ...sale, ...given }, () => itemId, sale.observed_at)).to.deep.include(outcome))
  }
})
