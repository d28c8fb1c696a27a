import { expect } from 'chai'
import fc from 'fast-check'
import { identityFault, loadCatalog } from '#infra/config/catalog.ts'
import { openCatalogIndex } from '#infra/kafka/catalog-index.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { plainName } from '#schemas/values/item-name.ts'

type Named = Pick<CatalogItem, 'item_id' | 'market_hash_name' | 'phase'>
type Entry = Named | string

const item = (item_id: number, market_hash_name: string, phase: CatalogItem['phase'] = null): CatalogItem =>
  ({ item_id, market_hash_name, phase }) as CatalogItem

const indexOf = (log: readonly Entry[]) => {
  const index = openCatalogIndex()
  for (const entry of log) {
    if (typeof entry === 'string') index.complete(entry)
    else index.add(entry as CatalogItem)
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
    index.add({ ...item(2, 'new', 'Ruby'), rarity_name: 'Covert' })
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

  it('used to have an item twice: a provisional one, and that of the catalog whose name has another blank', () => {
    const index = indexOf([item(1, 'Team | Event'), 'v1'])
    index.addProvisional([item(100_000, 'New Team | Event')])
    index.add({ ...item(2, 'New Team  | Event'), rarity_name: 'Covert' })
    index.complete('v2')
    const { idOf, byId } = index.current()
    expect([idOf('New Team | Event', null), idOf('New Team  | Event', null), byId(2)]).to.deep.equal([
      ...[100_000, 100_000, undefined],
    ])
    expect(byId(100_000)).to.deep.equal({ ...item(100_000, 'New Team | Event'), rarity_name: 'Covert' })
    index.add(item(3, 'New Team | Event'))
    index.complete('v3')
    const exact = index.current()
    expect([exact.idOf('New Team | Event', null), exact.idOf('New Team  | Event', null)]).to.deep.equal([100_000, 2])
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

describe('names', () => {
  const { idOf, idsOfName } = indexOf([
    ...[item(1, 'Sticker | Ninjas in Pyjamas  | Katowice 2015'), item(2, 'Nova | Wurst H\u00f6lle (Field-Tested)')],
    ...[item(3, 'Sticker | AdreN  | MLG Columbus 2016'), item(4, 'Sticker | adreN | MLG Columbus 2016')],
    ...[
      item(5, 'A  B'),
      item(6, 'A B'),
      item(7, '\u2605 StatTrak\u2122 Bayonet'),
      item(8, 'C  D'),
      item(9, 'C D', 'Ruby'),
    ],
    'v1',
  ]).current()
  const cases: [what: string, name: string, id: number | undefined][] = [
    ['as the catalog has it', 'Sticker | Ninjas in Pyjamas  | Katowice 2015', 1],
    ['with one blank for two', 'Sticker | Ninjas in Pyjamas | Katowice 2015', 1],
    ['with three', 'Sticker | Ninjas in Pyjamas   | Katowice 2015', 1],
    ['with a no-break space', 'Sticker |\u00a0Ninjas in Pyjamas\u00a0| Katowice 2015', 1],
    ['with blanks around it', ' \tSticker | Ninjas in Pyjamas | Katowice 2015 \r\n', 1],
    ['with wide, thin and ideographic spaces', 'Sticker\u2003| Ninjas\u2009in Pyjamas\u3000| Katowice\u202f2015', 1],
    ['with U+0085 and a line separator', 'Sticker\u0085| Ninjas in\u2028Pyjamas | Katowice 2015', 1],
    ['behind a byte order mark', '\ufeffSticker | Ninjas in Pyjamas  | Katowice 2015', 1],
    ['with zero-width spaces', 'Sticker |\u200b Ninjas in Pyja\u200bmas | Katowice 2015\u200b', 1],
    ['with a soft hyphen and a word joiner', 'Sticker | Nin\u00adjas in Pyjamas \u2060| Katowice 2015', 1],
    ['without a blank', 'Sticker| Ninjas in Pyjamas | Katowice 2015', undefined],
    ['composed', 'Nova | Wurst H\u00f6lle (Field-Tested)', 2],
    ['decomposed', 'Nova | Wurst Ho\u0308lle (Field-Tested)', 2],
    ['decomposed, with a soft hyphen between', 'Nova | Wurst Ho\u00ad\u0308lle\u00a0(Field-Tested)', 2],
    ['without its accent', 'Nova | Wurst Holle (Field-Tested)', undefined],
    ['in its own case', 'Sticker | AdreN | MLG Columbus 2016', 3],
    ['in the case of another', 'Sticker | adreN | MLG Columbus 2016 ', 4],
    ['in the case of none', 'Sticker | ADREN | MLG Columbus 2016', undefined],
    ['of which another differs in blanks', 'A  B', 5],
    ['in the plain form of two', 'A B', 6],
    ['in another form of two', ' A   B', 6],
    ['with signs as a phone writes them', '\u2605 StatTrak\u2122\ufe0f Bayonet', 7],
    ['in full width', '\uff21 \uff22', undefined],
    ['of blanks alone', ' \u00a0\u200b', undefined],
  ]
  for (const [what, name, id] of cases) {
    it(`${what} find ${id === undefined ? 'nothing' : `item ${id}`}`, () =>
      expect([idOf(name, null), idsOfName(name)]).to.deep.equal([id, id === undefined ? [] : [id]]))
  }

  it('find the phase that is asked for, in whichever spelling the catalog has it', () => {
    expect([idOf('C D', null), idOf(' C D', 'Ruby'), idOf('C D', 'Emerald')]).to.deep.equal([8, 9, undefined])
  })

  it('are not composed where marks are piled up, since that takes a time quadratic in their number', () => {
    const marks = '\u0345'.repeat(16_000) + '\u0334'.repeat(16_000)
    expect(plainName(` o${marks} `)).to.equal(`o${marks}`)
  })

  it('of the whole catalog find their items however they are written, since no two are one name', () => {
    const items = loadCatalog()
    const whole = indexOf([...items, 'v1']).current()
    const written = (name: string): string => `\u2003${name.normalize('NFD').replaceAll(/ +/g, '\u00a0 ')}\ufeff`
    const lost = items.filter(one => whole.idOf(written(one.market_hash_name), one.phase) !== one.item_id)
    expect(lost).to.deep.equal([])
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
