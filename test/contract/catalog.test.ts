/**
 * The built catalog against real market data, its source, and what names say (DECISIONS.md, "Catalog").
 *
 * Every figure is recomputed here; wears and qualities are read from names by this file's own rules, categories by tables that are
 * written from the specification and from the game's own list of weapons, not from the builder.
 */
import { readFileSync, statSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { expect } from 'chai'
import { assembleCatalog } from '#infra/config/build/assemble.ts'
import { readSource } from '#infra/config/build/source.ts'
import { CATALOG_FILES, catalogVersion, loadCatalog, loadPart } from '#infra/config/catalog.ts'
import { itemsReply } from '#schemas/api/catalog.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { nameKey } from '#schemas/values/item-name.ts'
import { PHASES } from '#schemas/values/phase.ts'
import { readRefreshes } from '#test/fixtures/recorded-refreshes.ts'
import { checkForms } from '#test/fixtures/reply-paths.ts'

const share = (names: string[], known: ReadonlySet<string>): number =>
  (100 * names.filter(name => known.has(name)).length) / names.length

describe('catalog: coverage', () => {
  const items = loadCatalog()
  const bySource = new Set(loadPart('items').map(item => item.market_hash_name))
  const all = new Set(items.map(item => item.market_hash_name))
  const refreshes = readRefreshes().map(({ file, prices }) => ({ file, names: Object.keys(prices) }))
  const market = [...new Set(refreshes.flatMap(refresh => refresh.names))]

  it('resolves at least 99.5 percent of the names of every single refresh and of all together', () => {
    for (const { file, names } of refreshes) expect(share(names, all), file).to.be.at.least(99.5)
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
    const previous = { items: loadPart('items'), observed: loadPart('observed') }
    const next = assembleCatalog(readSource(), market, previous)
    const isSame = JSON.stringify(next) === JSON.stringify(previous)
    expect(isSame, 'it is out of date: run npm run catalog:build').to.equal(true)
  })
})

describe('catalog: items', () => {
  const items = loadCatalog()
  const byKey = new Map(items.map(item => [nameKey(item.market_hash_name, item.phase), item]))

  it('are all in the forms that GET /items answers', () => {
    itemsReply.shape.items.parse(items)
    checkForms(items, 'GET /items')
  })

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

const CLASSES =
  'Agent,Charm,Collectible,Crate,Graffiti,Key,Music Kit,Pass,Patch,Sticker,Sticker Slab,Tool,Weapon'.split(',')

/** Family and kind → models. */
const WEAPONS: [family: string, kind: string, models: string][] = [
  ['Rifles', 'Assault Rifle', 'AK-47,AUG,FAMAS,Galil AR,M4A1-S,M4A4,SG 553'],
  ['Rifles', 'Sniper Rifle', 'AWP,G3SG1,SCAR-20,SSG 08'],
  ['Pistols', 'Pistol', 'CZ75-Auto,Desert Eagle,Dual Berettas,Five-SeveN,Glock-18,P2000,P250,R8 Revolver,Tec-9,USP-S'],
  ['SMGs', 'SMG', 'MAC-10,MP5-SD,MP7,MP9,P90,PP-Bizon,UMP-45'],
  ['Heavy', 'Shotgun', 'MAG-7,Nova,Sawed-Off,XM1014'],
  ['Heavy', 'Machine Gun', 'M249,Negev'],
  ['Equipment', 'Taser', 'Zeus x27'],
]

/** Families that the specification names, by class; others may be added. */
const FAMILIES: Record<string, string[]> = {
  Weapon: ['Rifles', 'Pistols', 'SMGs', 'Heavy', 'Knives', 'Gloves', 'Equipment'],
  Sticker: ['Autograph', 'Team', 'Event'],
  'Sticker Slab': ['Autograph', 'Team', 'Event'],
  Crate: ['Weapon Case', 'Sticker Capsule', 'Souvenir Package'],
  Key: ['Case Key', 'Capsule Key'],
}

const byModel = new Map(WEAPONS.flatMap(([family, kind, models]) => models.split(',').map(m => [m, [family, kind]])))

/** Class, family and kind as the name gives them; undefined where it gives none. */
function givenByName(name: string): (string | null)[] | undefined {
  const plain = name.replace(/^★ /, '').replace(/^(StatTrak™|Souvenir) /, '')
  if (name.startsWith('★')) {
    return / Gloves | Wraps /.test(name) ? ['Weapon', 'Gloves', 'Gloves'] : ['Weapon', 'Knives', 'Knife']
  }
  const [first = '', second] = plain.split(' | ')
  const weapon = second === undefined ? undefined : byModel.get(first)
  return weapon && ['Weapon', ...weapon]
}

describe('catalog: categories', () => {
  const items = loadCatalog()
  const ofClass = Map.groupBy(items, item => item.item_type)
  const find = (name: string): CatalogItem | undefined => items.find(item => item.market_hash_name === name)

  it('are the classes that the specification lists, each with items, and no item is without one', () => {
    expect([...ofClass.keys()].sort()).to.deep.equal(CLASSES)
  })

  it('are class, family and kind for every weapon, knife and glove', () => {
    let weapons = 0
    for (const { market_hash_name: name, item_type, item_subtype, weapon_type } of items) {
      const given = givenByName(name)
      if (given) weapons += 1
      if (given || item_type === 'Weapon') expect([item_type, item_subtype, weapon_type], name).to.deep.equal(given)
    }
    expect(weapons).to.be.greaterThan(15_000)
    const models = new Set(ofClass.get('Weapon')?.map(item => item.base_name))
    expect([...models]).to.include.members([...byModel.keys(), 'Karambit', 'Shadow Daggers', 'Hand Wraps'])
  })

  it('have a kind for weapons alone, and a family everywhere but for music kits', () => {
    for (const { market_hash_name: name, item_type, item_subtype, weapon_type } of items) {
      expect(weapon_type === null, name).to.equal(item_type !== 'Weapon')
      expect(item_subtype === null, name).to.equal(item_type === 'Music Kit')
    }
  })

  it('have the families that the specification names', () => {
    for (const [name, families] of Object.entries(FAMILIES)) {
      const found = new Set(ofClass.get(name)?.map(item => item.item_subtype))
      expect([...found], name).to.include.members(families)
    }
    expect(new Set(ofClass.get('Weapon')?.map(item => item.item_subtype)).size).to.equal(FAMILIES.Weapon?.length)
  })

  const examples: [name: string, type: string, subtype: string | null][] = [
    ['Sticker | Titan (Holo) | Katowice 2014', 'Sticker', 'Team'],
    ['Sticker | ESL Wolf (Foil) | Katowice 2014', 'Sticker', 'Event'],
    ['Sticker | BLAST.tv (Gold) | Paris 2023', 'Sticker', 'Event'],
    ['Sticker | olofmeister (Gold) | Cologne 2015', 'Sticker', 'Autograph'],
    ['Sticker Slab | olofmeister (Gold) | Cologne 2015', 'Sticker Slab', 'Autograph'],
    ['Sticker Slab | Lucky 13', 'Sticker Slab', 'Standard'],
    ["Charm | Lil' Ava", 'Charm', 'Charm'],
    ["Cmdr. Davida 'Goggles' Fernandez | SEAL Frogman", 'Agent', 'Counter-Terrorist'],
    ['Sealed Graffiti | PGL | Antwerp 2022', 'Graffiti', 'Event'],
    ['Patch | Vitality (Gold) | Stockholm 2021', 'Patch', 'Team'],
    ['StatTrak™ Music Kit | Sean Murray, A*D*8', 'Music Kit', null],
    ['Fever Case', 'Crate', 'Weapon Case'],
    ['Antwerp 2022 Viewer Pass', 'Pass', 'Viewer Pass'],
    ['Chroma Case Key', 'Key', 'Case Key'],
    ['Inferno Pin', 'Collectible', 'Pin'],
    ['Name Tag', 'Tool', 'Name Tag'],
    ['Gift Package', 'Tool', 'Gift'],
  ]
  for (const [name, type, subtype] of examples) {
    it(`put ${name} into ${subtype ?? 'no family'} of ${type}`, () => {
      expect(find(name)).to.include({ item_type: type, item_subtype: subtype })
    })
  }
})
