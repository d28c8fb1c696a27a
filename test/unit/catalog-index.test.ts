/**
 * The catalog that a process answers from: whole versions, names as the last record of each item has them.
 *
 * The oracle walks all records for each question.
 */
import { expect } from 'chai'
import fc from 'fast-check'
import { identityFault } from '#infra/config/catalog.ts'
import { openCatalogIndex } from '#infra/kafka/catalog-index.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'

type Named = Pick<CatalogItem, 'item_id' | 'market_hash_name' | 'phase'>
/** An item, or the version that is complete with it. */
type Entry = Named | string

const item = (item_id: number, market_hash_name: string, phase: CatalogItem['phase'] = null): CatalogItem =>
  ({ item_id, market_hash_name, phase }) as CatalogItem

const indexOf = (log: readonly Entry[]) => {
  const index = openCatalogIndex()
  for (const entry of log) {
    if (typeof entry === 'string') index.complete(entry)
    else index.take(entry as CatalogItem)
  }
  return index
}

describe('the catalog index', () => {
  it('used to keep the old name of an item that was renamed', () => {
    const { idOf, idsOfName, byId } = indexOf([item(1, 'old'), 'v1', item(1, 'new'), 'v2']).current()
    expect([idOf('old', null), idsOfName('old'), idOf('new', null), byId(1)?.market_hash_name]).to.deep.equal([
      ...[undefined, [], 1],
      'new',
    ])
  })

  it('used to lose an item that was renamed to a name that others have', () => {
    const renamed = indexOf([item(1, 'old'), item(2, 'knife', 'Ruby'), 'v1', item(1, 'knife'), 'v2']).current()
    expect([renamed.idOf('knife', null), renamed.idOf('old', null)]).to.deep.equal([1, undefined])
    expect(renamed.idsOfName('knife')).to.deep.equal([1, 2])
  })

  it('used to mix two versions while one was being published', () => {
    const index = indexOf([item(1, 'a'), 'v1', item(1, 'b'), item(2, 'c')])
    const before = index.current()
    expect([before.version, before.idOf('a', null), before.idOf('b', null), before.byId(2)]).to.deep.equal([
      ...['v1', 1, undefined],
      undefined,
    ])
    index.complete('v2')
    const after = index.current()
    expect([after.version, after.idOf('a', null), after.idOf('b', null), after.idOf('c', null)]).to.deep.equal([
      ...['v2', undefined, 1],
      2,
    ])
    expect([before.version, before.idOf('a', null), before.items.length], 'as it was').to.deep.equal(['v1', 1, 1])
  })

  it('has provisional items beside its own, and completes one under its id once the catalog has its name and phase', () => {
    const index = indexOf([item(1, 'a'), 'v1'])
    index.addProvisional([item(100_000, 'new'), item(100_001, 'new', 'Ruby')])
    const before = index.current()
    expect([before.version, before.idOf('new', null), before.idsOfName('new')]).to.deep.equal([
      ...['v1.2', 100_000],
      [100_000, 100_001],
    ])
    expect(before.items.map(one => one.is_provisional)).to.deep.equal([undefined, true, true])
    index.take({ ...item(2, 'new', 'Ruby'), rarity_name: 'Covert' })
    index.complete('v2')
    const after = index.current()
    expect([after.version, after.idOf('new', 'Ruby'), after.byId(2)]).to.deep.equal(['v2.2', 100_001, undefined])
    expect(after.byId(100_001)).to.deep.equal({ ...item(100_001, 'new', 'Ruby'), rarity_name: 'Covert' })
    expect([after.byId(100_000)?.is_provisional, before.byId(100_001)?.is_provisional]).to.deep.equal([true, true])
  })

  it('has at its start what compaction left of a version beside one that was never completed', () => {
    const index = indexOf([item(1, 'a'), 'v1', item(1, 'renamed'), item(2, 'b')])
    index.adopt()
    const { version, idOf } = index.current()
    expect([version, idOf('a', null), idOf('b', null)]).to.deep.equal(['v1+', 1, 2])
  })

  const names = fc.constantFrom('a', 'b', 'c')
  const phases = fc.constantFrom(null, 'Ruby' as const, 'Emerald' as const)
  const record = fc.record({ item_id: fc.integer({ min: 1, max: 6 }), market_hash_name: names, phase: phases })
  const logs = fc.array(fc.oneof({ weight: 4, arbitrary: record }, fc.constant('version')), { maxLength: 40 })

  it('answers what a walk over the records up to the last version answers, compacted or not', () => {
    const property = fc.property(logs, drawn => {
      const log: Entry[] = [...drawn.map((entry, i) => (entry === 'version' ? `v${i}` : entry)), 'end']
      const isLast = (entry: Entry, at: number): boolean =>
        !log.slice(at + 1).some(later => keyOf(later) === keyOf(entry))
      const compacted = log.filter(isLast)
      for (const index of [indexOf(log), indexOf(compacted)]) {
        const { idOf, idsOfName, version } = index.current()
        expect(version).to.equal('end')
        for (const name of ['a', 'b', 'c']) {
          const having = compacted.filter(
            entry => typeof entry !== 'string' && entry.market_hash_name === name,
          ) as Named[]
          having.sort((one, other) => one.item_id - other.item_id)
          const ordered = [...having.filter(one => one.phase === null), ...having.filter(one => one.phase !== null)]
          expect(idsOfName(name)).to.deep.equal(ordered.map(one => one.item_id))
          for (const phase of [null, 'Ruby', 'Emerald']) {
            expect(idOf(name, phase)).to.equal(having.find(one => one.phase === phase)?.item_id)
          }
        }
      }
    })
    fc.assert(property, { numRuns: 300 })
  })
})

const keyOf = (entry: Entry): string | number => (typeof entry === 'string' ? 'version' : entry.item_id)

describe('a catalog that is to be published', () => {
  const published = [item(1, 'a'), item(2, 'knife', 'Ruby')]
  const cases: { what: string; items: CatalogItem[]; fault: string | undefined }[] = [
    { what: 'with the same items and new ones', items: [...published, item(3, 'knife')], fault: undefined },
    { what: 'without an item that was published', items: [item(1, 'a')], fault: undefined },
    {
      what: 'that renames an item',
      items: [item(1, 'b')],
      fault: 'item 1 was published as "a" and would become "b"',
    },
    {
      what: 'that gives an item another phase',
      items: [item(2, 'knife', 'Emerald')],
      fault: 'item 2 was published as "knife" (Ruby) and would become "knife" (Emerald)',
    },
    {
      what: 'that gives one name two ids',
      items: [...published, item(9, 'a')],
      fault: 'items 1 and 9 are both "a"',
    },
  ]
  for (const { what, items, fault } of cases) {
    it(`${what}: ${fault ?? 'may follow'}`, () => expect(identityFault(published, items)).to.equal(fault))
  }
})
