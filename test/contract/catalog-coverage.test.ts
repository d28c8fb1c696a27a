/**
 * The built catalog against real market data and against its source.
 *
 * Reads the committed catalog files, recorded refreshes and the source package. Every figure is
 * recomputed here; wears and qualities are read from names by this file's own rules.
 */
import { readFileSync, statSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { expect } from 'chai'
import { assembleCatalog } from '#infra/config/build/assemble.ts'
import { readSource } from '#infra/config/build/source.ts'
import { CATALOG_FILES, catalogVersion, loadCatalog, packItems, unpackItems } from '#infra/config/catalog.ts'
import { nameKey } from '#schemas/values/item-name.ts'
import { PHASES } from '#schemas/values/phase.ts'
import { readRefreshes } from '#test/fixtures/recorded-refreshes.ts'

const share = (names: string[], known: ReadonlySet<string>): number =>
  (100 * names.filter(name => known.has(name)).length) / names.length

describe('catalog: coverage', () => {
  const items = loadCatalog()
  const bySource = new Set(unpackItems(readFileSync(CATALOG_FILES.items)).map(item => item.market_hash_name))
  const all = new Set(items.map(item => item.market_hash_name))
  const refreshes = readRefreshes().map(({ file, prices }) => ({ file, names: Object.keys(prices) }))
  const market = [...new Set(refreshes.flatMap(refresh => refresh.names))]

  it('resolves at least 99.5 percent of the names of every single refresh and of all together', () => {
    for (const { file, names } of refreshes) expect(share(names, all), file).to.be.at.least(99.5)
    console.log(
      `      ${market.length} names in ${refreshes.length} refreshes: ${share(market, bySource).toFixed(2)} % by the source, ${share(market, all).toFixed(2)} % by both files`,
    )
    expect(share(market, all)).to.be.at.least(99.5)
  })

  it('resolves from the source all but the families that the source lacks', () => {
    const lacking = market.filter(name => !bySource.has(name))
    const families =
      /^Souvenir Charm \| |Viewer Pass|Pass$|^(StatTrak™ )?Music Kit \||^Sealed Graffiti \| |Souvenir (Highlight )?Package$|^Sticker \| [^|]+\((Holo|Foil)\)$/
    const odd = lacking.filter(name => !families.test(name))
    expect(share(market, bySource)).to.be.at.least(96.5)
    expect(odd.length, odd.join('; ')).to.be.at.most(10)
  })

  it('resolves every name of the simulated markets’ base', () => {
    const file = new URL('../../infra/config/markets/base.json.gz', import.meta.url)
    const base = JSON.parse(gunzipSync(readFileSync(file)).toString()) as { prices: object }
    expect(Object.keys(base.prices).filter(name => !all.has(name))).to.deep.equal([])
  })

  it('is what the installed source and the committed files build, to the byte', () => {
    const previous = {
      items: unpackItems(readFileSync(CATALOG_FILES.items)),
      observed: unpackItems(readFileSync(CATALOG_FILES.observed)),
    }
    const next = assembleCatalog(readSource(), market, previous)
    const content = (bytes: Buffer) => gunzipSync(bytes)
    for (const part of ['items', 'observed'] as const) {
      const isSame = content(packItems(next[part])).equals(content(readFileSync(CATALOG_FILES[part])))
      expect(isSame, `${part} is out of date: run npm run catalog:build`).to.equal(true)
    }
  })
})

describe('catalog: items', () => {
  const items = loadCatalog()
  const byKey = new Map(items.map(item => [nameKey(item.market_hash_name, item.phase), item]))

  it('have one number each, in rising order, and one item per name and phase', () => {
    for (const [i, item] of items.slice(1).entries()) expect(item.item_id).to.be.greaterThan(items[i]?.item_id ?? 0)
    expect(byKey.size).to.equal(items.length)
  })

  it('have the entry of the finish as a whole beside every phase, and all eight phases occur', () => {
    const phased = items.filter(item => item.phase !== null)
    for (const item of phased) expect(byKey.has(item.market_hash_name), item.market_hash_name).to.equal(true)
    expect(new Set(phased.map(item => item.phase))).to.deep.equal(new Set(PHASES))
    for (const item of phased) expect(item.skin_name).to.match(/Doppler$/)
  })

  it('have a picture for each crate, under the addresses that the source gives', () => {
    for (const item of items) {
      expect(item.crates_images.length, item.market_hash_name).to.equal(item.crates.length)
      const images = [...item.crates_images, item.image_url, item.collection_image].filter(image => image !== null)
      for (const image of images)
        expect(image).to.match(/^https:\/\/cdn\.cstrike\.app\/images\/[0-9a-f]+(_light|_medium|_heavy)?\.webp$/)
    }
  })

  it('name crates that are items themselves', () => {
    const crates = new Set(items.flatMap(item => item.crates))
    for (const crate of crates) expect(byKey.get(crate)?.item_type, crate).to.equal('Crate')
  })

  it('say of themselves what their names say', () => {
    for (const item of items) {
      const name = item.market_hash_name
      const wear = /\((Factory New|Minimal Wear|Field-Tested|Well-Worn|Battle-Scarred)\)$/.exec(name)?.[1] ?? null
      expect(item.wear_name, name).to.equal(wear)
      const isStattrak = /^(★ )?StatTrak™ (?!Swap Tool)|_stattrak_/.test(name)
      expect(item.is_stattrak, name).to.equal(isStattrak)
      expect(item.is_souvenir, name).to.equal(/^Souvenir /.test(name))
      const skin = item.skin_name === null ? '' : ` | ${item.skin_name}`
      expect(name, name).to.include(`${item.base_name}${skin}`)
    }
  })

  it('have sound float bounds, colours, types and numbers', () => {
    for (const item of items) {
      const { market_hash_name: name, min_float: low, max_float: high } = item
      expect(low === null, name).to.equal(high === null)
      if (low !== null && high !== null) expect(low >= 0 && low < high && high <= 1, name).to.equal(true)
      if (item.rarity_color !== null) expect(item.rarity_color).to.match(/^[0-9a-f]{6}$/)
      expect(item.rarity_name === null, name).to.equal(item.rarity_color === null)
      if (item.def_index !== null) expect(item.def_index).to.match(/^\d+$/)
      expect(item).to.not.have.property('supply')
    }
  })

  it('are at most 1.5 MB, and have one version text', () => {
    const bytes = statSync(CATALOG_FILES.items).size + statSync(CATALOG_FILES.observed).size
    expect(bytes).to.be.below(1.5 * 2 ** 20)
    expect(catalogVersion())
      .to.match(/^[1-9]\d*-[0-9a-f]{16}$/)
      .and.equal(catalogVersion())
  })
})
