import { expect } from 'chai'
import { formatInstant } from '#schemas/values/instant.ts'
import {
  at,
  begun,
  changeTexts,
  type Entry,
  failed,
  type InputRecord,
  play,
  refresh,
  verdictsOf,
} from '#test/fixtures/book-inputs.ts'

const items = (count: number, price: (item: number) => number = item => item * 100): Entry[] =>
  Array.from({ length: count }, (_, index) => at(index + 1, price(index + 1)))
const ten = items(10)
const cheap = items(10, () => 5)

/** What records meet and lead to, where that is not a book of ten items, no change and an applied refresh. */
interface Consequence {
  given?: readonly InputRecord[]
  then?: readonly string[]
  verdicts?: readonly string[]
}

describe('book step', () => {
  function leads(
    when: readonly InputRecord[],
    { given = refresh(1, ten), then = [], verdicts = ['applied'] }: Consequence = {},
  ): void {
    const [before, all] = [play(given), play([...given, ...when])]
    expect(changeTexts(all.changes.slice(before.changes.length))).to.deep.equal(then)
    expect(verdictsOf(all).slice(before.judged.length)).to.deep.equal(verdicts)
  }

  it('a first refresh adds all that it lists, by ascending item', () =>
    leads(refresh(1, [at(7, 70), at(3, 30, { quantity: 2 })]), { given: [], then: ['added 3 30x2', 'added 7 70x1'] }))
  it('observations alone change nothing until their refresh completes', () => leads(begun(2, cheap), { verdicts: [] }))
  it('a completed refresh withdraws what it no longer lists', () =>
    leads(refresh(2, ten.slice(1)), { then: ['removed 1'] }))
  it('a refresh that lists the same again changes nothing and is applied all the same', () => leads(refresh(2, ten)))
  it('price and quantity, each alone, make an update', () =>
    leads(refresh(2, [at(1, 101), at(2, 200, { quantity: 3 })]), {
      given: refresh(1, [at(1, 100), at(2, 200)]),
      then: ['updated 1 101x1', 'updated 2 200x3'],
    }))
  it('an interrupted refresh withdraws nothing, nor does what follows it take its entries over', () =>
    leads([...begun(2, ten.slice(0, 3)), ...refresh(3, ten)]))
  it('a second attempt at the same refresh starts again at index 0 and counts alone', () =>
    leads([...begun(2, ten.slice(0, 4)), ...refresh(2, ten.slice(1))], { then: ['removed 1'] }))
  it('used to be judged one way at first and another way after a restart: an attempt without entries counts alone', () =>
    leads([...begun(2, ten), ...refresh(2, [])], { given: refresh(1, []) }))
  it('used to call two interleaved refreshes incomplete: what follows of the replaced one changes nothing', () =>
    leads(
      [
        ...begun(2, ten.slice(0, 4)),
        ...begun(3, ten.slice(0, 9)).slice(0, 5),
        ...refresh(2, ten).slice(4),
        ...refresh(3, ten.slice(0, 9)).slice(5),
      ],
      { then: ['removed 10'] },
    ))
  it('a refresh without entries replaces one that is open', () =>
    leads([...begun(2, ten), ...refresh(3, []), ...refresh(2, ten).slice(-1)], {
      given: refresh(1, []),
      verdicts: ['applied', 'stale not_newer'],
    }))
  it('a refresh of which an entry was lost is incomplete and changes nothing', () =>
    leads(refresh(2, cheap, { lost: [4] }), { verdicts: ['incomplete count_mismatch'] }))
  it('a refresh of which the first entries were lost is incomplete', () =>
    leads(refresh(2, ten, { lost: [0, 1] }), { verdicts: ['incomplete no_observations'] }))
  it('a refresh of which the last entries were lost is incomplete', () =>
    leads(refresh(2, ten, { lost: [9] }), { verdicts: ['incomplete count_mismatch'] }))
  it('an incomplete refresh does not count as judged: the same time may come again, whole', () =>
    leads(refresh(2, ten.slice(1)), {
      given: [...refresh(1, ten), ...refresh(2, ten, { lost: [4] })],
      then: ['removed 1'],
    }))
  it('a refresh as old as the last judged one is stale', () =>
    leads(refresh(2, ten.slice(1)), { given: refresh(2, ten), verdicts: ['stale not_newer'] }))
  it('a refresh older than the last judged one is stale', () =>
    leads(refresh(1, ten.slice(1)), { given: refresh(2, ten), verdicts: ['stale not_newer'] }))
  it('a failed fetch leaves the book and forgets what was staged', () =>
    leads([...begun(2, ten.slice(0, 3)), failed(2, 'truncated')], { verdicts: ['failed truncated'] }))
  it('entries of a refresh after its failure belong to nothing', () =>
    leads(refresh(2, ten, { lost: [0, 1, 2] }), {
      given: [...refresh(1, ten), ...begun(2, ten.slice(0, 3)), failed(2)],
      verdicts: ['incomplete no_observations'],
    }))
  it('the first refresh may be empty', () => leads(refresh(1, []), { given: [] }))
  it('an empty refresh of a provider that listed something has collapsed', () =>
    leads(refresh(2, []), { verdicts: ['quarantined collapsed'] }))
  it('a third empty refresh in a row withdraws all, half an hour after the first', () =>
    leads(refresh(1_800_002, []), {
      given: [...refresh(1, ten.slice(0, 2)), ...refresh(2, []), ...refresh(3, [])],
      then: ['removed 1', 'removed 2'],
      verdicts: ['applied collapsed'],
    }))
  it('an item listed twice counts with the lower ask', () =>
    leads(refresh(1, [at(1, 120, { quantity: 5 }), at(1, 110, { quantity: 2 }), at(1, 130)]), {
      given: [],
      then: ['added 1 110x2'],
    }))
  it('an item listed twice at one price counts with all its listings', () =>
    leads(refresh(1, [at(1, 110, { quantity: 2 }), at(1, 110, { quantity: 3 })]), {
      given: [],
      then: ['added 1 110x5'],
    }))
  it('added quantities end at the largest that an event can hold', () =>
    leads(refresh(1, [at(1, 110, { quantity: 2 ** 31 - 1 }), at(1, 110, { quantity: 3 })]), {
      given: [],
      then: [`added 1 110x${2 ** 31 - 1}`],
    }))
  it('a moved exchange rate alone changes nothing', () =>
    leads(refresh(2, ten, { currency: 'EUR', rate: '0.8' }), {
      given: refresh(1, ten, { currency: 'EUR', rate: '0.9' }),
    }))
  it('an amount beyond 2^53 micro-dollars fails its refresh and leaves the book', () =>
    leads(refresh(2, [at(1, 110), at(2, 10 ** 12)], { currency: 'XAU', rate: '0.0001' }), {
      given: refresh(1, [at(1, 100)], { currency: 'XAU', rate: '0.0001' }),
      verdicts: ['failed amount_too_large'],
    }))
  it('an amount beyond 2^53 micro-dollars does not keep the next refresh out', () =>
    leads(refresh(3, [at(1, 120)], { currency: 'XAU', rate: '0.0001' }), {
      given: [
        ...refresh(1, [at(1, 100)], { currency: 'XAU', rate: '0.0001' }),
        ...refresh(2, [at(1, 110), at(2, 10 ** 12)], { currency: 'XAU', rate: '0.0001' }),
      ],
      then: ['updated 1 120x1'],
    }))
  it('a refresh without a usable rate fails', () =>
    leads(refresh(2, ten, { rate: '0' }), { verdicts: ['failed unusable_rate'] }))
  it('a refresh completed in another currency than that of its entries fails', () =>
    leads([...begun(2, ten), ...refresh(2, ten, { currency: 'EUR', rate: '0.9' }).slice(-1)], {
      verdicts: ['failed currency_mismatch'],
    }))

  it('bids keep the higher of two', () => {
    const { changes } = play(refresh(1, [at(1, 110), at(1, 130, { quantity: 2 }), at(1, 120)]), 'bid')
    expect(changeTexts(changes)).to.deep.equal(['added 1 130x2'])
  })

  it('providers do not touch one another', () => {
    const records = [
      ...begun(1, [at(1, 10)], { provider: 'p' }),
      ...refresh(2, [at(1, 20)], { provider: 'q' }),
      ...refresh(1, [at(1, 10)], { provider: 'p' }).slice(-1),
    ]
    expect(play(records).changes.map(({ provider, price }) => [provider, price])).to.deep.equal([
      ['q', 20],
      ['p', 10],
    ])
  })

  it('a change holds both currencies, the rate, what it replaces, and the record that caused it', () => {
    const time = Date.UTC(2026, 2, 3)
    const url = 'https://market.example/1'
    const records = [
      ...refresh(time, [at(1, 100, { quantity: 4 })], { currency: 'EUR', rate: '0.8' }),
      ...refresh(time + 1, [at(1, 120, { url })], { currency: 'EUR', rate: '0.9', id: formatInstant(time + 1) }),
    ]
    expect(play(records).changes[1]).to.deep.equal({
      side: 'ask',
      provider: 'p',
      item_id: 1,
      change: 'updated',
      price: 120,
      currency: 'EUR',
      price_micro_usd: 1_333_333,
      usd_rate: '0.9',
      quantity: 1,
      previous_micro_usd: 1_250_000,
      previous_quantity: 4,
      seen_at: time + 1,
      refresh_id: '2026-03-03T00:00:00.001Z',
      url,
      source_partition: 3,
      source_offset: 3,
      source_index: 0,
    })
  })

  it('a marker names the refresh, its time and its last record', () => {
    expect(play([...refresh(1, ten), ...refresh(2, ten)]).marked[1]).to.deep.equal({
      side: 'ask',
      provider: 'p',
      refresh_id: 'r2',
      last_updated: 2,
      source_partition: 3,
      source_offset: 21,
      catalog_version: 'numbers',
    })
  })

  it('a refresh that was not applied has no marker', () => {
    const refused = [...refresh(1, ten), ...refresh(2, []), ...refresh(1, ten), ...refresh(3, ten, { lost: [1] })]
    expect(play([...refused, failed(4)]).marked).to.have.length(1)
  })

  it('a verdict counts the changes, what was not applied, and the book after it', () => {
    const more = [at(1, 150), at(2, 200, { quantity: 2 }), at('unknown', 5), { name: 'no price' }, at(11, 7), at(5, -3)]
    const { judged } = play([
      ...refresh(1, ten.slice(0, 3), { currency: 'EUR', rate: '0.5' }),
      ...refresh(2, more, { currency: 'EUR', rate: '0.5' }),
    ])
    const { added, updated, removed, unresolved, rejected, ...totals } = judged[1] ?? expect.fail('no verdict')
    expect({ added, updated, removed, unresolved, rejected }).to.deep.equal({
      added: 1,
      updated: 2,
      removed: 1,
      unresolved: 1,
      rejected: 2,
    })
    expect(totals).to.include({ unique_items: 3, total_offers: 4, total_value: 557, total_value_usd: 1114 })
  })
})

describe('book step does not apply', () => {
  const unappliedOf = (entry: Entry) => play(refresh(1, [at(1, 100), entry])).unapplied

  it('a name that the catalog does not know, with its phase', () => {
    expect(unappliedOf(at('☆ Unheard-of', 5, { phase: 'Phase 9' }))).to.deep.equal([
      { kind: 'unresolved', name: '☆ Unheard-of', phase: 'Phase 9', provider: 'p', observedAt: 1 },
    ])
  })

  const letters: { name: string; entry: Entry; reason: string }[] = [
    { name: 'a price of 0', entry: at(2, 0), reason: 'price_out_of_range' },
    { name: 'a negative price', entry: at(2, -1), reason: 'price_out_of_range' },
    { name: 'a price beyond 10^13', entry: at(2, 10 ** 13 + 1), reason: 'price_out_of_range' },
    { name: 'a quantity of 0', entry: at(2, 5, { quantity: 0 }), reason: 'quantity_out_of_range' },
    { name: 'a quantity beyond 2^31 - 1', entry: at(2, 5, { quantity: 2 ** 31 }), reason: 'quantity_out_of_range' },
    { name: 'another currency within a refresh', entry: at(2, 5, { currency: 'EUR' }), reason: 'currency_mismatch' },
    { name: 'an entry that ingest rejected', entry: { name: '2' }, reason: 'price_missing' },
  ]
  for (const { name, entry, reason } of letters) {
    it(`${name}, and the rest of its refresh is applied`, () => {
      const { unapplied, changes, judged } = play(refresh(1, [at(1, 100), entry]))
      expect(unapplied).to.have.length(1)
      expect(unapplied[0]).to.include({ kind: 'deadLetter', reason })
      expect(changeTexts(changes)).to.deep.equal(['added 1 100x1'])
      expect(judged[0]).to.include({ verdict: 'applied', rejected: 1, unresolved: 0 })
    })
  }

  it('entries of a refresh that another has replaced, rejected ones too', () => {
    const old = refresh(1, [at(1, 1), at(2, 2), { name: 'no price' }])
    const { unapplied, judged } = play([...old.slice(0, 1), ...begun(2, [at(1, 1)]), ...old.slice(1)])
    expect(unapplied).to.deep.equal(Array.from({ length: 3 }, () => ({ kind: 'skip', reason: 'no_refresh_open' })))
    expect(judged).to.deep.equal([])
  })

  it('an entry of no open refresh', () => {
    const [, second] = begun(1, [at(1, 1), at(2, 2)])
    expect(play(second ? [second] : []).unapplied).to.deep.equal([{ kind: 'skip', reason: 'no_refresh_open' }])
  })
})
