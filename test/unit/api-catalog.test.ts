/**
 * The catalog's answers, compared with plain filtering of the real catalog.
 */
import { expect } from 'chai'
import fc from 'fast-check'
import { loadCatalog } from '#infra/config/catalog.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { type ItemsQuery, imagesReply, itemsMetadataReply, itemsReply } from '#schemas/api/catalog.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { openItemNames } from '#schemas/values/item-name.ts'
import { openCatalogPages } from '#services/api/queries/catalog-pages.ts'

/** One item in twelve, so that comparing whole answers stays quick, and all of one finish. */
const items = loadCatalog().filter(
  ({ skin_name, market_hash_name }, i) => i % 12 === 0 || skin_name === 'Redline' || market_hash_name.includes('  '),
)
let version = '1'
let shown: readonly CatalogItem[] = items
const pages = openCatalogPages({
  ...openItemNames(items),
  items: () => shown,
  version: () => version,
} as CatalogReader)
const answer = (query: Partial<ItemsQuery>) => JSON.parse(pages.items({ offset: 0, ...query }).toString())
const idsOf = (found: readonly CatalogItem[]): number[] => found.map(item => item.item_id)
const sample = fc.constantFrom(...items)

/** Filters whose rule is equality, by a value that some item has. */
const FIELDS = [
  'item_type',
  'item_subtype',
  'weapon_type',
  'base_name',
  'skin_name',
  'wear_name',
  'phase',
  'collection',
  'rarity_name',
  'rarity_color',
  'style_name',
  'is_stattrak',
  'is_souvenir',
  'market_hash_name',
  'item_id',
] as const

describe('GET /items', () => {
  it('answers the whole catalog without parameters', () => {
    const whole = itemsReply.parse(answer({}))
    expect(whole.items).to.deep.equal(items)
    expect(whole.pagination).to.deep.equal({
      limit: items.length,
      offset: 0,
      total: items.length,
      has_next: false,
      has_prev: false,
      next_cursor: null,
    })
  })

  it('answers the items that have all the given values', () => {
    fc.assert(
      fc.property(sample, fc.uniqueArray(fc.constantFrom(...FIELDS), { maxLength: 4 }), (item, fields) => {
        const known = fields.filter(field => item[field] !== null)
        const query = Object.fromEntries(known.map(field => [field, item[field]]))
        const expected = items.filter(other => known.every(field => other[field] === item[field]))
        expect(idsOf(answer(query).items)).to.deep.equal(idsOf(expected))
      }),
      { numRuns: 60 },
    )
  })

  it('looks at categories, names, finishes and collections without regard to case, and at other texts with', () => {
    fc.assert(
      fc.property(
        sample,
        fc.constantFrom('item_type', 'item_subtype', 'weapon_type', 'base_name', 'skin_name', 'collection' as const),
        (item, field) => {
          const value = item[field as 'base_name']
          if (value === null) return
          expect(answer({ [field]: value.toUpperCase() }).pagination.total).to.equal(
            answer({ [field]: value }).pagination.total,
          )
        },
      ),
      { numRuns: 30 },
    )
    expect(answer({ wear_name: 'FIELD-TESTED' }).items).to.deep.equal([])
    expect(answer({ wear_name: 'Field-Tested' }).items).not.to.deep.equal([])
  })

  it('searches names by a part in any case', () => {
    const found = answer({ q: 'rEdLiNe' }).items.map((item: CatalogItem) => item.item_id)
    expect(found).to.deep.equal(items.filter(item => /redline/i.test(item.market_hash_name)).map(item => item.item_id))
    expect(found.length).to.be.greaterThan(5)
  })

  it('searches words in any order only where no name holds the text as it is', () => {
    const namesFor = (q: string): string[] => answer({ q }).items.map((item: CatalogItem) => item.market_hash_name)
    const redline = items.map(item => item.market_hash_name).filter(name => /^(?=.*ak-47)(?=.*redline)/i.test(name))
    expect(redline.length).to.be.greaterThan(0)
    expect(namesFor('redline AK-47')).to.deep.equal(redline)
    expect(namesFor('  redline   AK-47 ')).to.deep.equal(redline)
    expect(namesFor('AK-47 | Redline')).to.deep.equal(redline.filter(name => name.includes('AK-47 | Redline')))
    expect(namesFor('redline AK-47 nothing')).to.deep.equal([])
    // A filter that leaves out what holds the text does not turn the search into one for words.
    expect(answer({ q: 'AK-47 | Redline', item_type: 'sticker' }).items).to.deep.equal([])
  })

  it('used to find nothing by names and parts of names whose blanks or accents are written otherwise', () => {
    const team = 'Ninjas in Pyjamas  | Katowice 2015'
    const sticker = items.filter(item => item.market_hash_name === `Sticker | ${team}`)
    const slab = items.filter(item => item.market_hash_name === `Sticker Slab | ${team}`)
    expect([sticker.length, slab.length]).to.deep.equal([1, 1])
    for (const q of [
      'pyjamas | KATOWICE 2015',
      'Pyjamas\u00a0| Katowice\u00a02015',
      ' pyjamas   | katowice 2015\ufeff',
    ]) {
      expect(answer({ q }).items, q).to.deep.equal([...sticker, ...slab])
    }
    expect(answer({ market_hash_name: 'Sticker |\u00a0Ninjas in Pyjamas | Katowice 2015 ' }).items).to.deep.equal(
      sticker,
    )
    expect(answer({ skin_name: 'ninjas in pyjamas | katowice 2015' }).items).to.deep.equal([...sticker, ...slab])
    expect(answer({ base_name: 'Ground Rebel' }).items).to.have.length(1)
    const accented = items.filter(item => /\u00f6/.test(item.market_hash_name)).map(item => item.item_id)
    expect(accented.length).to.be.greaterThan(0)
    expect(idsOf(answer({ q: 'o\u0308' }).items)).to.deep.equal(accented)
    expect(answer({ q: ' \u00a0' }).pagination.total, 'a search of blanks is none').to.equal(items.length)
  })

  it('finds weapons by class and model, which found nothing when the class was the kind', () => {
    const found: CatalogItem[] = answer({ item_type: 'weapon', item_subtype: 'RIFLES', q: 'AK-47' }).items
    expect(found.length).to.be.greaterThan(0)
    expect(found).to.deep.equal(items.filter(item => item.base_name === 'AK-47'))
    for (const item of found) expect(item).to.include({ item_type: 'Weapon', weapon_type: 'Assault Rifle' })
  })

  it('takes several crates as alternatives', () => {
    const [one, other] = [...new Set(items.flatMap(item => item.crates))] as [string, string]
    const expected = items.filter(item => item.crates.includes(one) || item.crates.includes(other))
    expect(answer({ crates: [one, other] }).items).to.deep.equal(expected)
    expect(answer({ crates: [`${one.replaceAll(' ', '\u00a0')} `, other] }).items).to.deep.equal(expected)
  })

  it('takes a colour by its hexadecimal digits, with or without #, or by its name', () => {
    const reds = items.filter(item => item.rarity_color === 'eb4b4b').map(item => item.item_id)
    expect(reds.length).to.be.greaterThan(0)
    for (const rarity_color of ['#eb4b4b', '#EB4B4B', 'eb4b4b', 'red', 'Red']) {
      expect(
        answer({ rarity_color }).items.map((item: CatalogItem) => item.item_id),
        rarity_color,
      ).to.deep.equal(reds)
    }
    expect(answer({ rarity_color: 'octarine' }).items).to.deep.equal([])
  })

  it('pages through its matches', () => {
    const all = items.filter(item => item.item_type === 'Agent')
    const seen: CatalogItem[] = []
    for (let offset = 0; ; offset += 7) {
      const { items: page, pagination } = answer({ item_type: 'Agent', limit: 7, offset })
      expect(pagination).to.include({ limit: 7, offset, total: all.length, has_prev: offset > 0 })
      expect(pagination.has_next).to.equal(offset + 7 < all.length)
      seen.push(...page)
      if (!pagination.has_next) break
    }
    expect(seen).to.deep.equal(all)
    expect(answer({ item_type: 'Agent', limit: 5, offset: 100_000 })).to.deep.include({ items: [] })
  })

  it('answers with limit 1 at least where nothing is found', () => {
    const none = itemsReply.parse(answer({ q: 'no such thing' }))
    expect(none.pagination).to.include({ limit: 1, total: 0, has_next: false })
  })

  it('changes when a new version is published, and not before', () => {
    shown = items.slice(0, 3)
    expect(answer({}).pagination.total).to.equal(items.length)
    version = '2'
    expect(answer({}).items).to.deep.equal(items.slice(0, 3))
    shown = items
    version = '3'
  })
})

describe('GET /items/metadata and /images', () => {
  it('list every value that some item has, and none that no item has', () => {
    const { catalog, filters } = itemsMetadataReply.parse(JSON.parse(pages.metadata().toString()))
    expect(catalog.total_items).to.equal(items.length)
    for (const [field, values] of Object.entries(filters)) {
      const expected = new Set(items.map(item => item[field as 'phase']).filter(value => value !== null))
      expect(values, field).to.have.members([...expected])
    }
  })

  it('show each image of a name once, in either format', () => {
    const png = imagesReply.parse(JSON.parse(pages.images('png').toString()))
    const withImages = items.filter(item => item.image_url !== null)
    expect(Object.keys(png)).to.have.members([...new Set(withImages.map(item => item.market_hash_name))])
    const byName = Map.groupBy(withImages, item => item.market_hash_name)
    for (const [name, images] of Object.entries(png)) {
      expect(images).to.have.members([...new Set(byName.get(name)?.map(item => item.image_url))])
    }
  })

  it('change .png endings alone', () => {
    const [a, b] = [items[0], items[1]] as [CatalogItem, CatalogItem]
    shown = [
      { ...a, image_url: 'https://images.example/a.png' },
      { ...b, image_url: 'https://images.example/b.png.svg' },
    ]
    version = '4'
    expect(JSON.parse(pages.images('webp').toString())).to.deep.equal({
      [a.market_hash_name]: ['https://images.example/a.webp'],
      [b.market_hash_name]: ['https://images.example/b.png.svg'],
    })
    expect(JSON.parse(pages.images('png').toString())[a.market_hash_name]).to.deep.equal([
      'https://images.example/a.png',
    ])
  })
})
