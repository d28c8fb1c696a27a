import { expect } from 'chai'
import fc from 'fast-check'
import { loadCatalog } from '#infra/config/catalog.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import { type ItemsQuery, imagesReply, itemsMetadataReply, itemsReply } from '#schemas/api/catalog.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { openItemNames } from '#schemas/values/item-name.ts'
import { type CatalogPage, openCatalogPages } from '#services/api/queries/catalog-pages.ts'
import { itemPredicate } from '#services/api/queries/item-filters.ts'

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
const allOf = async (pieces: CatalogPage['pieces']): Promise<Buffer[]> => {
  const all: Buffer[] = []
  for await (const piece of pieces) all.push(piece)
  return all
}
const parsed = async (made: Promise<CatalogPage>) => {
  const { bytes, pieces } = await made
  const text = Buffer.concat(await allOf(pieces))
  expect(text.length, 'the length that is stated').to.equal(bytes)
  return JSON.parse(text.toString())
}
const answer = (query: Partial<ItemsQuery>) => parsed(pages.items({ offset: 0, ...query }))
const idsOf = (found: readonly CatalogItem[]): number[] => found.map(item => item.item_id)
const sample = fc.constantFrom(...items)

/** Filters whose rule is equality, by a value that some item has, and those among them that ignore case. */
const CASELESS = ['item_type', 'item_subtype', 'weapon_type', 'base_name', 'skin_name', 'collection'] as const
const EXACT = [
  'wear_name',
  'phase',
  'rarity_name',
  'rarity_color',
  'style_name',
  'market_hash_name',
  'item_id',
] as const
const FIELDS = [...CASELESS, ...EXACT, 'is_stattrak', 'is_souvenir'] as const

describe('GET /items', () => {
  it('answers the whole catalog without parameters', async () => {
    const whole = itemsReply.parse(await answer({}))
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

  it('answers the items that have all the given values', async () => {
    await fc.assert(
      fc.asyncProperty(sample, fc.uniqueArray(fc.constantFrom(...FIELDS), { maxLength: 4 }), async (item, fields) => {
        const known = fields.filter(field => item[field] !== null)
        const query = Object.fromEntries(known.map(field => [field, item[field]]))
        const expected = items.filter(other => known.every(field => other[field] === item[field]))
        expect(idsOf((await answer(query)).items)).to.deep.equal(idsOf(expected))
      }),
      { numRuns: 60 },
    )
  })

  it('looks at categories, names, finishes and collections without regard to case, and at other texts with', async () => {
    for (const field of CASELESS) {
      const value = items.find(item => item[field] !== null)?.[field] ?? expect.fail(field)
      const totalOf = async (text: string) => (await answer({ [field]: text })).pagination.total
      expect(await totalOf(value.toUpperCase()), field)
        .to.equal(await totalOf(value))
        .and.to.be.above(0)
    }
    expect((await answer({ wear_name: 'FIELD-TESTED' })).items).to.deep.equal([])
    expect((await answer({ wear_name: 'Field-Tested' })).items).not.to.deep.equal([])
  })

  it('searches words in any order only where no name holds the text as it is', async () => {
    const namesFor = async (q: string): Promise<string[]> =>
      (await answer({ q })).items.map((item: CatalogItem) => item.market_hash_name)
    const redline = items.map(item => item.market_hash_name).filter(name => /^(?=.*ak-47)(?=.*redline)/i.test(name))
    expect(redline.length).to.be.greaterThan(0)
    expect(await namesFor('redline AK-47')).to.deep.equal(redline)
    expect(await namesFor('  redline   AK-47 ')).to.deep.equal(redline)
    expect(await namesFor('AK-47 | Redline')).to.deep.equal(redline.filter(name => name.includes('AK-47 | Redline')))
    expect(await namesFor('redline AK-47 nothing')).to.deep.equal([])
    // A filter that leaves out what holds the text does not turn the search into one for words.
    expect((await answer({ q: 'AK-47 | Redline', item_type: 'sticker' })).items).to.deep.equal([])
  })

  it('used to find nothing by names and parts of names whose blanks or accents are written otherwise', async () => {
    const found = async (query: Partial<ItemsQuery>) => (await answer(query)).items
    const team = 'Ninjas in Pyjamas  | Katowice 2015'
    const sticker = items.filter(item => item.market_hash_name === `Sticker | ${team}`)
    const slab = items.filter(item => item.market_hash_name === `Sticker Slab | ${team}`)
    expect([sticker.length, slab.length]).to.deep.equal([1, 1])
    for (const q of [
      'pyjamas | KATOWICE 2015',
      'Pyjamas\u00a0| Katowice\u00a02015',
      ' pyjamas   | katowice 2015\ufeff',
    ]) {
      expect(await found({ q }), q).to.deep.equal([...sticker, ...slab])
    }
    const spelled = { market_hash_name: 'Sticker |\u00a0Ninjas in Pyjamas | Katowice 2015 ' }
    expect(await found(spelled)).to.deep.equal(sticker)
    expect(await found({ skin_name: 'ninjas in pyjamas | katowice 2015' })).to.deep.equal([...sticker, ...slab])
    expect(await found({ base_name: 'Ground Rebel' })).to.have.length(1)
    const accented = items.filter(item => /\u00f6/.test(item.market_hash_name)).map(item => item.item_id)
    expect(accented.length).to.be.greaterThan(0)
    expect(idsOf(await found({ q: 'o\u0308' }))).to.deep.equal(accented)
    expect((await answer({ q: ' \u00a0' })).pagination.total, 'a search of blanks is none').to.equal(items.length)
  })

  it('looks for a word once however often it is sent, which held all other requests for 0.4 s', () => {
    const looked: string[] = []
    const name = {
      includes(part: string) {
        looked.push(part)
        return part === 'a'
      },
    }
    const q = 'a '.repeat(100)
    const fits = itemPredicate({ offset: 0, q }, { searchTexts: [name as unknown as string], idsOfName: () => [] })
    expect(fits?.(items[0] as CatalogItem, 0)).to.equal(true)
    expect(looked).to.deep.equal([q.trim(), 'a'])
  })

  it('finds weapons by class and model, which found nothing when the class was the kind', async () => {
    const found: CatalogItem[] = (await answer({ item_type: 'weapon', item_subtype: 'RIFLES', q: 'AK-47' })).items
    expect(found.length).to.be.greaterThan(0)
    expect(found).to.deep.equal(items.filter(item => item.base_name === 'AK-47'))
    for (const item of found) expect(item).to.include({ item_type: 'Weapon', weapon_type: 'Assault Rifle' })
  })

  it('takes several crates as alternatives', async () => {
    const [one, other] = [...new Set(items.flatMap(item => item.crates))] as [string, string]
    const expected = items.filter(item => item.crates.includes(one) || item.crates.includes(other))
    expect((await answer({ crates: [one, other] })).items).to.deep.equal(expected)
    const respelled = [`${one.replaceAll(' ', '\u00a0')} `, other]
    expect((await answer({ crates: respelled })).items).to.deep.equal(expected)
  })

  it('takes a colour by its hexadecimal digits, with or without #, or by its name', async () => {
    const reds = items.filter(item => item.rarity_color === 'eb4b4b')
    expect(reds.length).to.be.greaterThan(0)
    for (const rarity_color of ['#eb4b4b', '#EB4B4B', 'eb4b4b', 'red', 'Red'])
      expect(idsOf((await answer({ rarity_color })).items), rarity_color).to.deep.equal(idsOf(reds))
    expect((await answer({ rarity_color: 'octarine' })).items).to.deep.equal([])
  })

  it('pages through its matches', async () => {
    const all = items.filter(item => item.item_type === 'Agent')
    const seen: CatalogItem[] = []
    for (let offset = 0; ; offset += 7) {
      const { items: page, pagination } = await answer({ item_type: 'Agent', limit: 7, offset })
      expect(pagination).to.include({ limit: 7, offset, total: all.length, has_prev: offset > 0 })
      expect(pagination.has_next).to.equal(offset + 7 < all.length)
      seen.push(...page)
      if (!pagination.has_next) break
    }
    expect(seen).to.deep.equal(all)
    expect(await answer({ item_type: 'Agent', limit: 5, offset: 100_000 })).to.deep.include({ items: [] })
  })

  it('answers with limit 1 at least where nothing is found', async () => {
    const none = itemsReply.parse(await answer({ q: 'no such thing' }))
    expect(none.pagination).to.include({ limit: 1, total: 0, has_next: false })
  })

  it('makes a filtered answer as its client takes it, which was one text of 29 MB for each who did not', async () => {
    const { pieces } = await pages.items({ offset: 0, is_souvenir: false })
    const sizes = (await allOf(pieces)).map(({ length }) => length)
    expect(sizes.length).to.be.greaterThan(5)
    expect(Math.max(...sizes)).to.be.lessThan(1024 * 1024)
  })

  it('leaves the event loop to others while it makes what a new version needs', async () => {
    version = 'in turns'
    for (const make of [() => answer({}), () => parsed(pages.metadata()), () => parsed(pages.images('png'))]) {
      let turns = 0
      let waiting = setImmediate(function count() {
        turns += 1
        waiting = setImmediate(count)
      })
      await make().finally(() => clearImmediate(waiting))
      expect(turns).to.be.at.least(Math.floor(items.length / 500))
    }
  })

  it('changes when a new version is published, and not before', async () => {
    shown = items.slice(0, 3)
    expect((await answer({})).pagination.total).to.equal(items.length)
    version = '2'
    expect((await answer({})).items).to.deep.equal(items.slice(0, 3))
    shown = items
    version = '3'
  })
})

describe('GET /items/metadata and /images', () => {
  it('list every value that some item has, and none that no item has', async () => {
    const { catalog, filters } = itemsMetadataReply.parse(await parsed(pages.metadata()))
    expect(catalog.total_items).to.equal(items.length)
    for (const [field, values] of Object.entries(filters)) {
      const expected = new Set(items.map(item => item[field as 'phase']).filter(value => value !== null))
      expect(values, field).to.have.members([...expected])
    }
  })

  it('show each image of a name once, in either format', async () => {
    const png = imagesReply.parse(await parsed(pages.images('png')))
    const withImages = items.filter(item => item.image_url !== null)
    expect(Object.keys(png)).to.have.members([...new Set(withImages.map(item => item.market_hash_name))])
    const byName = Map.groupBy(withImages, item => item.market_hash_name)
    for (const [name, images] of Object.entries(png)) {
      expect(images).to.have.members([...new Set(byName.get(name)?.map(item => item.image_url))])
    }
  })

  it('change .png endings alone', async () => {
    const [a, b] = [items[0], items[1]] as [CatalogItem, CatalogItem]
    shown = [
      { ...a, image_url: 'https://images.example/a.png' },
      { ...b, image_url: 'https://images.example/b.png.svg' },
    ]
    version = '4'
    expect(await parsed(pages.images('webp'))).to.deep.equal({
      [a.market_hash_name]: ['https://images.example/a.webp'],
      [b.market_hash_name]: ['https://images.example/b.png.svg'],
    })
    expect((await parsed(pages.images('png')))[a.market_hash_name]).to.deep.equal(['https://images.example/a.png'])
  })
})
