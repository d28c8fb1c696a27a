import { expect } from 'chai'
import fc from 'fast-check'
import { recordedEvent } from '#schemas/api/feed.ts'
import { NO_PATTERN } from '#schemas/events/sale-observed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { changesFrames, type ItemsFrame, itemsFrames, openItemText, pickItems } from '#services/feed/frames.ts'
import { saleChange } from '#test/fixtures/feed-logs.ts'

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

const texts = names.map(name => name.slice(0, 2_048))
const stickers = fc.record({ name: texts, slot: fc.nat(4), wear: fc.constantFrom(0, 0.5) })
const sales = fc.record({
  provider: fc.constantFrom('p', 'q'),
  observed_at: fc.constantFrom(LISTING.seenAt, LISTING.seenAt + 1),
  currency: fc.constantFrom('USD', 'CNY'),
  float: fc.option(fc.constant(0.25)),
  stickers: fc.option(fc.array(stickers, { maxLength: 4 })),
  charms: fc.option(fc.array(fc.record({ name: texts, pattern_id: fc.constantFrom(NO_PATTERN, 7) }), { maxLength: 1 })),
  inspect_in_game: fc.option(fc.constant('game://é"')),
})
/** Few of any kind, or many of one. */
const someSales = fc.oneof(
  fc.array(sales, { maxLength: 20 }),
  fc
    .tuple(sales, fc.integer({ min: 1, max: 2_500 }))
    .map(([sale, count]) => Array(count).fill({ ...sale, stickers: null })),
)

describe('the events of sales', () => {
  it('hold each sale once, with its provider and moment, in the order of the log, within the bounds of an event', () => {
    fc.assert(
      fc.property(someSales, given => {
        const changes = given.map((members, itemId) => saleChange(itemId, { ...members, usd_rate: '7.25' }))
        const itemOf = (item_id: number) =>
          ({ item_id, market_hash_name: `Item ${item_id}`, phase: null }) as CatalogItem
        const frames = [...changesFrames('sale', changes, { itemOf, itemText: openItemText() })]
        const events = frames.map(({ bytes, ends }) => {
          const [, data = ''] = /^event: sales\.recorded\ndata: ([^\n]+)\n\n$/.exec(bytes.toString()) ?? []
          if (ends.length > 1) expect(Buffer.byteLength(`data: ${data}`)).to.be.at.most(LINE_BYTES_MAX)
          return recordedEvent.parse(JSON.parse(data))
        })
        const found = events.flatMap(({ provider, seen_at, items }) => {
          expect(items.map(item => item.provider)).to.deep.equal(items.map(() => provider))
          return items.map(({ item_id, price }) => ({ item_id, price, seen_at }))
        })
        const expected = Map.groupBy(changes, ({ provider, seen_at }) => `${seen_at} ${provider}`).values()
        expect(found).to.deep.equal(
          [...expected].flat().map(({ item_id, seen_at, row }) => ({
            item_id,
            seen_at: new Date(seen_at).toISOString(),
            price: row.currency === 'USD' ? 725 : 100,
          })),
        )
      }),
      { numRuns: 150 },
    )
  })
})

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
