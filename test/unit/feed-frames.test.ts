import { expect } from 'chai'
import fc from 'fast-check'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { type ItemsFrame, itemsFrames, openItemText, pickItems } from '#services/feed/frames.ts'

const LINE_BYTES_MAX = 65_535
const ITEMS_MAX = 1_000
const LISTING = { side: 'ask', provider: 'p', seenAt: 1_772_573_670_549 } as const

const names = fc
  .tuple(
    fc.constantFrom('', '★ ', 'StatTrak™ ', '龍王 "x" \\ \n', '\u2028\ud800'),
    fc.string(),
    fc.constantFrom(0, 1, 10, 300, 70_000),
  )
  .map(([start, text, times]) => start + text + '★x'.repeat(times))
const rows = fc.record({
  market_hash_name: names,
  price: fc.option(fc.nat()),
  quantity: fc.nat(),
  change: fc.constantFrom('added' as const, 'updated' as const, 'removed' as const),
})
/** Few rows of any names, or many of one. */
const listings = fc.oneof(
  fc.array(rows, { minLength: 1, maxLength: 20 }),
  fc.tuple(rows, fc.integer({ min: 1, max: 2_500 })).map(([row, count]) => {
    const market_hash_name = row.market_hash_name.slice(0, 400)
    return Array.from({ length: count }, () => ({ ...row, market_hash_name }))
  }),
)
type Rows = typeof listings extends fc.Arbitrary<infer T> ? T : never

const textsOf = (listing: Rows): string[] => {
  const itemText = openItemText()
  return listing.map(({ market_hash_name, ...row }, item_id) =>
    itemText({ item_id, market_hash_name, phase: null } as CatalogItem, row),
  )
}
const lineOf = (bytes: Buffer): string => {
  const match = /^event: prices\.changed\n(data: [^\n]+)\n\n$/.exec(bytes.toString())
  if (!match) throw new Error(`not one event: ${bytes}`)
  return match[1] as string
}
const dataOf = (bytes: Buffer) => JSON.parse(lineOf(bytes).slice('data: '.length))

describe('the events of rows', () => {
  it('hold all rows in their order, within the items and the line of an event, and few of them', () => {
    fc.assert(
      fc.property(listings, listing => {
        const texts = textsOf(listing)
        const frames = [...itemsFrames(LISTING, texts)]
        const own = frames.map(({ bytes }) => dataOf(bytes))
        expect(own.flatMap(({ items }) => items)).to.deep.equal(texts.map(text => JSON.parse(text)))
        for (const [at, { bytes, ends }] of frames.entries()) {
          const lineBytes = Buffer.byteLength(lineOf(bytes))
          // A single row of a line of its own cannot be split.
          if (ends.length > 1) expect(lineBytes).to.be.at.most(LINE_BYTES_MAX)
          expect(own[at]).to.deep.include({ provider: 'p', seen_at: '2026-03-03T21:34:30.549Z' })
          expect(own[at].items.length).to.equal(ends.length).and.to.be.within(1, ITEMS_MAX)
          const next = frames[at + 1]
          if (next && ends.length < ITEMS_MAX)
            expect(lineBytes + 1 + (next.ends[0] as number) - next.start).to.be.above(LINE_BYTES_MAX)
        }
      }),
      { numRuns: 150 },
    )
  })

  it('are of some rows what a filter of their JSON leaves', () => {
    fc.assert(
      fc.property(listings, fc.infiniteStream(fc.boolean()), (listing, choices) => {
        const [frame] = itemsFrames(LISTING, textsOf(listing)) as Iterable<ItemsFrame>
        const { bytes, ends } = frame as ItemsFrame
        const indexes = [...ends.keys()].filter(at => choices.next().value || at === ends.length - 1)
        const all = dataOf(bytes)
        const items = indexes.map(at => all.items[at])
        expect(lineOf(pickItems(frame as ItemsFrame, indexes))).to.equal(`data: ${JSON.stringify({ ...all, items })}`)
      }),
      { numRuns: 150 },
    )
  })
})
