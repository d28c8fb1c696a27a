/**
 * The categories of every item of the catalog, against what its name says (DECISIONS.md, "Catalog").
 *
 * The table below is written from the specification and from the game's own list of weapons, not from the builder.
 */
import { expect } from 'chai'
import { loadCatalog } from '#infra/config/catalog.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'

const CLASSES = [
  'Agent',
  'Charm',
  'Collectible',
  'Crate',
  'Graffiti',
  'Key',
  'Music Kit',
  'Pass',
  'Patch',
  'Sticker',
  'Sticker Slab',
  'Tool',
  'Weapon',
]

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

  it('give a colour six lower-case digits', () => {
    const colours = new Set(items.map(item => item.rarity_color).filter(colour => colour !== null))
    for (const colour of colours) expect(colour).to.match(/^[0-9a-f]{6}$/)
    expect(colours.size).to.be.greaterThan(5)
  })
})
