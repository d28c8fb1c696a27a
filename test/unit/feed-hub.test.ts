import { expect } from 'chai'
import fc from 'fast-check'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import type { Subscription } from '#services/feed/feed-request.ts'
import { openItemText } from '#services/feed/frames.ts'
import { openHub } from '#services/feed/hub.ts'
import { framesOf } from '#services/feed/window.ts'
import { batchOf } from '#test/fixtures/feed-without-log.ts'
import { changed } from '#test/harness/published-records.ts'

interface Named extends Subscription {
  id: string
}

const wanting = (id: string, members: Partial<Subscription> = {}): Named => {
  const { itemIds = new Set<number>(), names = new Set<string>() } = members
  const isFiltered = itemIds.size + names.size > 0
  return { id, side: 'ask', providers: undefined, ...members, itemIds, names, isFiltered }
}

/** Items 1 and 2 are two phases of one name. */
const itemOf = (item_id: number) =>
  ({
    item_id,
    market_hash_name: item_id <= 2 ? '★ Knife | Doppler "x"' : `Item ${item_id}`,
    phase: item_id <= 2 ? `Phase ${item_id}` : null,
  }) as CatalogItem

const ITEMS = { itemOf, itemText: openItemText() }

function itemIdsOf(frame: Buffer): number[] {
  const [, data = ''] = /^event: .+\ndata: (.+)\n\n$/.exec(frame.toString()) ?? []
  return JSON.parse(data).items.map(({ item_id }: { item_id: number }) => item_id)
}

/** What each subscriber gets of a batch: item ids per event. */
function deliveriesTo(subscribers: Named[], changes: BookChanged[]): Record<string, number[][]> {
  const hub = openHub<Named>(itemOf)
  for (const subscriber of subscribers) hub.add(subscriber)
  const got: Record<string, number[][]> = Object.fromEntries(subscribers.map(({ id }) => [id, []]))
  for (const { frame, changes: framed } of framesOf(batchOf(changes), ITEMS)) {
    for (const { bytes, to, indexes = [...framed.keys()] } of hub.deliver(frame)) {
      const ids = itemIdsOf(bytes)
      expect(ids).to.deep.equal(indexes.map(at => framed[at]?.item_id))
      for (const { id } of to) got[id]?.push(ids)
    }
  }
  return got
}

describe('the hub of a feed', () => {
  it('delivers one moment per event', () => {
    const pushed = [
      changed({ item_id: 1, seen_at: 1 }),
      changed({ item_id: 2, seen_at: 1 }),
      changed({ item_id: 3, seen_at: 2 }),
    ]
    expect(deliveriesTo([wanting('a')], pushed)).to.deep.equal({ a: [[1, 2], [3]] })
  })

  it('sends nothing to a subscriber that has left', () => {
    const hub = openHub<Named>(itemOf)
    for (const left of [wanting('a'), wanting('b', { itemIds: new Set([1]), names: new Set(['Item 3']) })]) {
      hub.add(left)
      hub.remove(left)
    }
    for (const { frame } of framesOf(batchOf([changed({ item_id: 1 }), changed({ item_id: 3 })]), ITEMS))
      expect(hub.deliver(frame)).to.deep.equal([])
  })

  it('gives each subscriber what a filter by hand gives, in one event', () => {
    // Item 7 is in no batch.
    const ids = fc.uniqueArray(fc.integer({ min: 1, max: 7 }), { maxLength: 3 })
    const side = fc.constantFrom('ask', 'ask', 'ask', 'bid' as const)
    const providers = fc.option(fc.uniqueArray(fc.constantFrom('p', 'q'), { minLength: 1 }), { nil: undefined })
    const subscriber = fc.record({ side, itemIds: ids, nameOf: ids, providers })
    fc.assert(
      fc.property(fc.array(subscriber, { maxLength: 5 }), fc.array(fc.integer({ min: 1, max: 6 })), (wanted, items) => {
        const subscribers = wanted.map((want, at) =>
          wanting(String(at), {
            side: want.side,
            itemIds: new Set(want.itemIds),
            names: new Set(want.nameOf.map(id => itemOf(id).market_hash_name)),
            providers: want.providers && new Set(want.providers),
          }),
        )
        const got = deliveriesTo(
          subscribers,
          items.map(item_id => changed({ item_id })),
        )
        for (const { id, side, itemIds, names, isFiltered, providers: own } of subscribers) {
          const fits = (item: number) => !isFiltered || itemIds.has(item) || names.has(itemOf(item).market_hash_name)
          const expected = side === 'ask' && (own === undefined || own.has('p')) ? items.filter(fits) : []
          expect(got[id]).to.deep.equal(expected.length > 0 ? [expected] : [])
        }
      }),
    )
  })
})
