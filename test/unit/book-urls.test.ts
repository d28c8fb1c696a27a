import { expect } from 'chai'
import { begun, at as entryAt, failed, type InputRecord, play, pushed, refresh } from '#test/fixtures/book-inputs.ts'
import { runBook } from '#test/fixtures/book-processor.ts'

const [A, B, C] = ['https://m.example/a', 'https://m.example/b', 'https://m.example/c'] as const
const at = (item: number, price: number, url: string | null = null, quantity = 1) =>
  entryAt(item, price, { url, quantity })
const several = [1, 2, 3, 4]
/** Enough items that one more or less of them is no collapse. */
const listed = several.map(item => at(item, 100 * item, `${A}${item}`))

describe('book, the URL of an offer', () => {
  const staged = [
    { name: 'is that of the lowest ask', offers: [at(1, 120, B), at(1, 100, A)], url: A },
    {
      name: 'used to be that of the last offer: stays with the lowest ask',
      offers: [at(1, 100, A), at(1, 120, B)],
      url: A,
    },
    { name: 'of two at one price is that of the first', offers: [at(1, 100, A), at(1, 100, B)], url: A },
    { name: 'is none where the lowest ask has none', offers: [at(1, 120, B), at(1, 100), at(1, 130, C)], url: null },
    { name: 'is none where the first of two at one price has none', offers: [at(1, 100), at(1, 100, B)], url: null },
    { name: 'is that of the highest bid', side: 'bid', offers: [at(1, 100, A), at(1, 120, B), at(1, 110, C)], url: B },
  ] as const
  for (const { name, offers, url, ...more } of staged) {
    it(name, () => {
      const { changes } = play(refresh(1, offers), 'side' in more ? more.side : 'ask')
      expect(changes.map(change => change.url)).to.deep.equal([url])
    })
  }

  it('that changes alone is an event of the whole row, which names its refresh and keeps its time', () => {
    const { changes, urlChanges, judged } = play([
      ...refresh(1, listed),
      ...refresh(2, [at(1, 100, C), ...listed.slice(1)]),
    ])
    expect(changes).to.have.length(4)
    expect(urlChanges).to.deep.equal([
      {
        side: 'ask',
        provider: 'p',
        item_id: 1,
        price: 100,
        currency: 'USD',
        price_micro_usd: 1_000_000,
        quantity: 1,
        seen_at: 1,
        refresh_id: 'r2',
        url: C,
        source_partition: 3,
        source_offset: 9,
        source_index: 0,
      },
    ])
    expect(judged[1]).to.include({ verdict: 'applied', added: 0, updated: 0, removed: 0 })
  })

  function changes(given: readonly InputRecord[], urls: readonly string[]): void {
    const { urlChanges } = play([...refresh(1, listed), ...given])
    expect(urlChanges.map(({ item_id, url }) => `${item_id} ${url?.split('/').at(-1) ?? null}`)).to.deep.equal(urls)
  }

  it('that goes is one', () => changes(refresh(2, [at(1, 100), ...listed.slice(1)]), ['1 null']))
  it('that stays is none', () => changes(refresh(2, listed), []))
  it('that changes with the price, or goes with its row, is none beside the change', () =>
    changes(refresh(2, [at(1, 101, C), at(2, 200, C), at(3, 300, `${A}3`)]), ['2 c']))
  it('comes back as it was after a price that had none', () =>
    changes(
      [...refresh(2, [at(1, 90), ...listed.slice(1)]), ...refresh(3, [at(1, 90, `${A}1`), ...listed.slice(1)])],
      ['1 a1'],
    ))
  it('in a quarantined, incomplete, stale, failed or cut refresh changes nothing', () =>
    changes(
      [
        ...refresh(2, [at(1, 100, C)]),
        ...refresh(3, [at(1, 100, C), ...listed.slice(1)], { lost: [2] }),
        ...refresh(1, [at(1, 100, C), ...listed.slice(1)]),
        ...refresh(4, [at(1, 100, C), ...listed.slice(1)], { rate: '0' }),
        ...begun(5, [at(1, 100, C)]),
        failed(6),
        ...refresh(7, listed),
      ],
      [],
    ))
  it('that is pushed changes alone too, and an observation without one takes it away', () =>
    changes(
      [pushed(2, 1, 100, { url: C }), pushed(3, 1, 100, { url: C }), pushed(4, 1, 100), pushed(0, 1, 100, { url: B })],
      ['1 c', '1 null'],
    ))
  it('of a row that was withdrawn is forgotten', () =>
    changes([pushed(2, 1, null), pushed(3, 1, null, { url: C }), ...refresh(4, [at(1, 100), ...listed.slice(1)])], []))

  it('is written before the marker of its refresh, and once', () => {
    const moved = [at(1, 100, C), at(2, 250, C), ...listed.slice(2)]
    const records = [...refresh(1, listed), ...refresh(2, moved), ...refresh(3, moved)]
    const events = runBook(records).said.flatMap(
      text => /"event":"(OfferUrl|Book|Refresh)[A-Z]\w*/.exec(text)?.[0].slice(9) ?? [],
    )
    const second = events.slice(events.indexOf('RefreshJudged') + 1)
    expect(second.slice(0, 3)).to.deep.equal(['BookChanged', 'OfferUrlChanged', 'RefreshMarked'])
    expect(events.filter(event => event === 'OfferUrlChanged')).to.have.length(1)
  })
})
