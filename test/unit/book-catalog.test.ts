/** The truth is the same refresh, played whole by the version that was there at its first record. */
import { expect } from 'chai'
import fc from 'fast-check'
import type { CatalogLookup } from '#schemas/values/catalog-item.ts'
import { at, begun, changeTexts, type InputRecord, play, pushed, refresh } from '#test/fixtures/book-inputs.ts'

const NAMES = ['a', 'b', 'c', 'd']

/** A version in which names have these ids, in the order of {@link NAMES}; 0: none. */
const versionOf = (version: string, ids: readonly number[]): CatalogLookup => ({
  version,
  idOf: name => ids[NAMES.indexOf(name)] || undefined,
})

/** Plays records, each at its version. */
const playAt = (records: readonly InputRecord[], versions: readonly CatalogLookup[]) => {
  let offset = 0
  return play(records, 'ask', new Map(), () => versions[offset++] as CatalogLookup)
}

describe('a refresh and the catalog', () => {
  const before = versionOf('v1', [1, 2, 0, 0])
  const after = versionOf('v2', [1, 0, 2, 0])

  it('used to be resolved by two versions when one was published in its middle', () => {
    const records = refresh(1, [at('a', 10), at('b', 20), at('c', 5)])
    const played = playAt(records, [before, before, after, after])
    expect(changeTexts(played.changes)).to.deep.equal(['added 1 10x1', 'added 2 20x1'])
    expect([played.marked[0]?.catalog_version, played.judged[0]?.catalog_version]).to.deep.equal(['v1', 'v1'])
  })

  it('names its version in a verdict that applies nothing, and none where no name was read', () => {
    const incomplete = refresh(1, [at('a', 10), at('b', 20)], { lost: [1] })
    const empty = refresh(2, [], { provider: 'q' })
    const failed: InputRecord = { event: 'RefreshFailed', value: { provider: 'p', observed_at: 3, reason: 'timeout' } }
    const records = [...incomplete, ...empty, failed]
    const played = playAt(records, [before, after, after, after, after])
    expect(played.judged.map(({ verdict, catalog_version }) => [verdict, catalog_version])).to.deep.equal([
      ['incomplete', 'v1'],
      ['applied', 'v2'],
      ['failed', null],
    ])
  })

  it('is no matter of a pushed observation, which has the present version', () => {
    const played = playAt([...begun(1, [at('b', 10)]), pushed(2, 'c', 7, { provider: 'q' })], [before, after])
    expect(changeTexts(played.changes)).to.deep.equal(['added 2 7x1'])
  })

  it('gives what it gives under the version of its first record alone, wherever versions come', () => {
    const ids = fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 4, maxLength: 4 })
    const entry = fc.record({ name: fc.constantFrom(...NAMES), price: fc.integer({ min: 1, max: 9 }) })
    const refreshes = fc.array(fc.array(entry, { maxLength: 6 }), { minLength: 1, maxLength: 4 })
    const property = fc.property(
      refreshes,
      fc.array(ids, { minLength: 1, maxLength: 4 }),
      fc.infiniteStream(fc.nat(4)),
      (drawn, all, moves) => {
        const versions = all.map((one, i) => versionOf(`v${i}`, one))
        const records = drawn.map((entries, i) =>
          refresh(
            i + 1,
            entries.map(({ name, price }) => at(name, price)),
          ),
        )
        let number = 0
        const moving = records.flat().map(() => {
          if (moves.next().value === 0) number += 1
          return versions[Math.min(number, versions.length - 1)] as CatalogLookup
        })
        let offset = 0
        const still = records.flatMap(some => {
          const first = moving[offset] as CatalogLookup
          offset += some.length
          return some.map(() => first)
        })
        const [moved, whole] = [playAt(records.flat(), moving), playAt(records.flat(), still)]
        expect(moved).to.deep.equal(whole)
        expect(moved.judged.map(judged => judged.catalog_version)).to.deep.equal(
          records.map((_, i) => still[records.slice(0, i).flat().length]?.version),
        )
      },
    )
    fc.assert(property, { numRuns: 200 })
  })
})
