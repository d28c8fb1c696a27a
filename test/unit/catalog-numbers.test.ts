/** Draws its sources from the real package, in pieces small enough to build hundreds of times. */
import { expect } from 'chai'
import fc from 'fast-check'
import { assembleCatalog, type Catalog } from '#infra/config/build/assemble.ts'
import { readSource } from '#infra/config/build/source.ts'
import { nameKey } from '#schemas/values/item-name.ts'

const NOTHING: Catalog = { items: [], observed: [] }

const numbersOf = (catalog: Catalog): Map<string, number> =>
  new Map(
    [...catalog.items, ...catalog.observed].map(item => [nameKey(item.market_hash_name, item.phase), item.item_id]),
  )

describe('catalog: numbers', () => {
  const source = readSource()
  const phased = source.filter(item => item.phase !== null).slice(0, 40)
  const others = source.filter((item, i) => item.phase === null && i % 211 === 0)
  const pool = [...phased, ...others]
  const names = fc.uniqueArray(
    fc.oneof(
      fc.constantFrom(...pool.map(item => `Souvenir ${item.name} (Field-Tested)`)),
      fc.string({ minLength: 1, maxLength: 12 }),
    ),
    { maxLength: 5 },
  )
  const version = fc.record({ entries: fc.subarray(pool, { minLength: 1 }), names })

  it('keep every pair at its number through any run of builds, and append what is new', () => {
    fc.assert(
      fc.property(fc.array(version, { minLength: 2, maxLength: 4 }), versions => {
        let before = NOTHING
        for (const { entries, names: seen } of versions) {
          const after = assembleCatalog(entries, seen, before)
          const old = numbersOf(before)
          const highest = Math.max(0, ...old.values())
          const now = numbersOf(after)
          for (const [key, id] of old) expect(now.get(key), key).to.equal(id)
          for (const [key, id] of now) if (!old.has(key)) expect(id).to.be.greaterThan(highest)
          expect(new Set(now.values()).size).to.equal(after.items.length + after.observed.length)
          expect(now.size).to.equal(after.items.length + after.observed.length)
          before = after
        }
      }),
      { numRuns: 60 },
    )
  })

  it('do not depend on the order in which names were seen', () => {
    fc.assert(
      fc.property(version, ({ entries, names: seen }) => {
        const one = assembleCatalog(entries, seen, NOTHING)
        const other = assembleCatalog(entries, [...seen].reverse(), NOTHING)
        expect(other).to.deep.equal(one)
      }),
      { numRuns: 30 },
    )
  })

  it('stay when a vanished entry keeps its item, fields and all', () => {
    const entry = pool.find(item => item.kind === 'weapon' && item.minFloat !== null && item.phase === null)
    const ofEntry = (catalog: Catalog) =>
      catalog.items.filter(item => item.market_hash_name.includes(entry?.name ?? '?'))
    const full = assembleCatalog(pool, [], NOTHING)
    const without = assembleCatalog(
      pool.filter(item => item !== entry),
      [],
      full,
    )
    expect(ofEntry(full)).to.not.have.length(0)
    expect(ofEntry(without)).to.deep.equal(ofEntry(full))
  })

  it('stay when an observed name enters the source: it moves parts and gains fields', () => {
    const entry = pool.find(item => item.kind === 'sticker')
    if (entry === undefined) throw new Error('the pool holds no sticker: widen it')
    const early = assembleCatalog([], [entry.name], NOTHING)
    const late = assembleCatalog([entry], [], early)
    expect(early.observed.map(item => [item.item_id, item.def_index])).to.deep.equal([[1, null]])
    const moved = late.items.find(item => item.market_hash_name === entry.name)
    expect(late.observed).to.deep.equal([])
    expect(moved).to.include({ item_id: 1, def_index: String(entry.defIndex), image_url: entry.image })
  })

  it('are none for an observed name that differs from another in blanks or composition alone', () => {
    const entry = pool.find(item => item.kind === 'sticker')
    const name = entry?.name ?? ''
    const { items, observed } = assembleCatalog(
      pool,
      [`${name} `, name.replace(' ', '\u00a0'), 'Caf\u00e9', 'Cafe\u0301'],
      NOTHING,
    )
    expect(items.filter(item => item.market_hash_name === name)).to.have.length(1)
    expect(observed.map(item => item.market_hash_name.normalize('NFC'))).to.deep.equal(['Caf\u00e9'])
  })
})
