/**
 * Which items the source expands to: wears, qualities, phases, crates.
 *
 * Entries are made here, so that each claim shows the whole of its cause.
 */
import { expect } from 'chai'
import { type Draft, expandSource } from '#infra/config/build/expand.ts'
import { draftFromNames } from '#infra/config/build/observed.ts'
import type { SourceItem } from '#infra/config/build/source.ts'

let nextId = 1

function entry(kind: string, name: string, rest: Partial<SourceItem> = {}): SourceItem {
  return {
    id: nextId++,
    kind,
    name,
    phase: null,
    note: null,
    description: '',
    tournament: null,
    weaponKind: kind === 'weapon' ? 'Assault Rifle' : null,
    side: null,
    isBase: false,
    isFree: false,
    defIndex: 7,
    paintIndex: null,
    rarityColor: '#d32ce6',
    collection: null,
    collectionImage: null,
    minFloat: null,
    maxFloat: null,
    image: `https://images.example/${name}.webp`,
    wearImages: {},
    contents: [],
    yields: [],
    stickerId: null,
    ...rest,
  }
}

const painted = (kind: string, name: string, minFloat: number, maxFloat: number, rest: Partial<SourceItem> = {}) =>
  entry(kind, name, { minFloat, maxFloat, paintIndex: 282, ...rest })

const namesOf = (drafts: Draft[]): string[] => drafts.map(draft => draft.market_hash_name)

describe('catalog: expanding the source', () => {
  const wears = [
    { range: [0, 1], names: ['Factory New', 'Minimal Wear', 'Field-Tested', 'Well-Worn', 'Battle-Scarred'] },
    { range: [0, 0.07], names: ['Factory New'] },
    { range: [0, 0.08], names: ['Factory New', 'Minimal Wear'] },
    { range: [0.06, 0.8], names: ['Factory New', 'Minimal Wear', 'Field-Tested', 'Well-Worn', 'Battle-Scarred'] },
    { range: [0.38, 0.45], names: ['Well-Worn'] },
    { range: [0.1, 0.38], names: ['Minimal Wear', 'Field-Tested'] },
  ] as const
  for (const { range, names } of wears) {
    it(`gives a finish of ${range[0]} to ${range[1]} the wears ${names.join(', ')}`, () => {
      const { drafts } = expandSource([painted('weapon', 'AK-47 | X', range[0], range[1])], [])
      expect(drafts.map(draft => draft.wear_name)).to.deep.equal(names)
      expect(drafts.every(draft => draft.min_float === range[0] && draft.max_float === range[1])).to.equal(true)
    })
  }

  it('gives a weapon StatTrak and Souvenir only where a container does, with that container as crate', () => {
    const finish = painted('weapon', 'AK-47 | X', 0, 0.07)
    const plain = painted('weapon', 'AK-47 | Plain', 0, 0.07)
    const { drafts } = expandSource(
      [
        finish,
        plain,
        entry('case', 'Container | Good Case', { contents: [finish.id], yields: ['normal', 'stattrak'] }),
        entry('case', 'Container | Souvenir Package', { contents: [finish.id], yields: ['souvenir'] }),
      ],
      [],
    )
    const cratesOf = (name: string) => drafts.find(draft => draft.market_hash_name === name)?.crates
    expect(cratesOf('AK-47 | X (Factory New)')).to.deep.equal(['Good Case'])
    expect(cratesOf('StatTrak™ AK-47 | X (Factory New)')).to.deep.equal(['Good Case'])
    expect(cratesOf('Souvenir AK-47 | X (Factory New)')).to.deep.equal(['Souvenir Package'])
    expect(namesOf(drafts).filter(name => name.includes('Plain'))).to.deep.equal(['AK-47 | Plain (Factory New)'])
  })

  it('takes a quality that a market showed as proof of it, in every wear of the finish', () => {
    const { drafts } = expandSource([painted('weapon', 'AK-47 | X', 0, 0.1)], ['Souvenir AK-47 | X (Minimal Wear)'])
    expect(namesOf(drafts)).to.include.members([
      'Souvenir AK-47 | X (Factory New)',
      'Souvenir AK-47 | X (Minimal Wear)',
    ])
    expect(namesOf(drafts).some(name => name.startsWith('StatTrak'))).to.equal(false)
  })

  it('makes each phase an item of its own, and one for the finish as a whole over all their ranges', () => {
    const { drafts } = expandSource(
      [
        painted('melee', 'Karambit | Doppler', 0, 0.08, { phase: 'Ruby', paintIndex: 415 }),
        painted('melee', 'Karambit | Doppler', 0, 0.05, { phase: 'Phase 1', paintIndex: 418 }),
      ],
      [],
    )
    const plain = drafts
      .filter(draft => !draft.is_stattrak)
      .map(draft => [draft.phase, draft.wear_name, draft.paint_index])
    expect(plain).to.deep.equal([
      [null, 'Factory New', null],
      [null, 'Minimal Wear', null],
      ['Phase 1', 'Factory New', 418],
      ['Ruby', 'Factory New', 415],
      ['Ruby', 'Minimal Wear', 415],
    ])
    expect(new Set(namesOf(drafts.filter(draft => draft.wear_name === 'Factory New')))).to.deep.equal(
      new Set(['★ Karambit | Doppler (Factory New)', '★ StatTrak™ Karambit | Doppler (Factory New)']),
    )
  })

  it('gives every phase the crates that hold any phase', () => {
    const ruby = painted('melee', 'Karambit | Doppler', 0, 0.05, { phase: 'Ruby' })
    const first = painted('melee', 'Karambit | Doppler', 0, 0.05, { phase: 'Phase 1' })
    const box = entry('case', 'Container | Chroma Case', { contents: [ruby.id], yields: ['normal', 'stattrak'] })
    const knives = expandSource([ruby, first, box], []).drafts.filter(draft => draft.weapon_type === 'Knife')
    expect(knives).to.have.length(6)
    for (const knife of knives) expect(knife.crates).to.deep.equal(['Chroma Case'])
  })

  it('leaves out what is never traded: stock weapons, medals, empty gloves', () => {
    const { drafts } = expandSource(
      [
        entry('weapon', 'AK-47', { isBase: true, isFree: true }),
        entry('glove', 'Sport Gloves', { isBase: true }),
        entry('collectible', 'Collectible | 5 Year Veteran Coin', { note: 'Five Year Service Coin' }),
        entry('collectible', 'Collectible | Dust II Pin', { note: 'Commodity Pin - Dust II' }),
        entry('melee', 'Karambit', { isBase: true }),
      ],
      [],
    )
    expect(namesOf(drafts)).to.deep.equal(['Dust II Pin', '★ Karambit', '★ StatTrak™ Karambit'])
  })

  it('offers a music kit only in the quality that its box gives', () => {
    const kit = entry('musickit', 'Music Kit | A, B')
    const box = entry('case', 'Container | StatTrak™ Radicals Box', { contents: [kit.id], yields: ['stattrak'] })
    expect(namesOf(expandSource([kit, box], []).drafts)).to.deep.equal([
      'StatTrak™ Music Kit | A, B',
      'StatTrak™ Radicals Box',
    ])
  })

  it('gives a sticker whose slab the source lacks a slab, without taking the sticker out of its capsule', () => {
    const sealed = entry('sticker', 'Sticker | A')
    const fresh = entry('sticker', 'Sticker | B (Gold)', { rarityColor: '#eb4b4b' })
    const slab = entry('keychain', 'Sticker Slab | A', { stickerId: sealed.id, defIndex: 1355 })
    const capsule = entry('case', 'Container | Good Capsule', { contents: [fresh.id], yields: ['normal'] })
    const { drafts } = expandSource([sealed, fresh, slab, capsule], [])
    const made = drafts.find(draft => draft.market_hash_name === 'Sticker Slab | B (Gold)')
    expect(made).to.include({ def_index: '1355', rarity_color: 'eb4b4b', image_url: null, style_name: 'Gold' })
    expect(made?.crates).to.deep.equal([])
    expect(drafts.find(draft => draft.market_hash_name === 'Sticker | B (Gold)')?.crates).to.deep.equal([
      'Good Capsule',
    ])
  })

  it('names whom a picture shows, and of a slab whom its sticker shows', () => {
    const tournament = 'This item commemorates the 2015 ESL One Cologne CS:GO Championship.'
    const ofPlayer = { tournament, description: 'This foil sticker was autographed by professional player X.' }
    const hand = entry('sticker', 'Sticker | X (Foil) | Cologne 2015', ofPlayer)
    const { drafts } = expandSource(
      [
        entry('sticker', 'Sticker | Lucky 13'),
        entry('sticker', 'Sticker | Titan (Foil) | Cologne 2015', { tournament }),
        entry('sticker', 'Sticker | ESL (Gold) | Cologne 2015', { tournament }),
        entry('patch', 'Patch | Titan | Cologne 2015', { tournament }),
        hand,
        entry('keychain', 'Sticker Slab | X (Foil) | Cologne 2015', { stickerId: hand.id }),
      ],
      [],
    )
    const families = drafts.slice(0, 6).map(draft => [draft.item_type, draft.item_subtype])
    expect(families).to.deep.equal([
      ['Sticker', 'Standard'],
      ['Sticker', 'Team'],
      ['Sticker', 'Event'],
      ['Patch', 'Team'],
      ['Sticker', 'Autograph'],
      ['Sticker Slab', 'Autograph'],
    ])
  })

  it('writes names as the market does: no slash, graffiti sealed, kinds dropped', () => {
    const { drafts } = expandSource(
      [
        entry('case', 'Container | Legends (Holo/Foil)'),
        entry('graffiti', 'Graffiti | Ace'),
        entry('agent', 'Agent | A | B'),
      ],
      [],
    )
    expect(namesOf(drafts)).to.deep.equal(['Legends (Holo-Foil)', 'Sealed Graffiti | Ace', 'A | B'])
  })
})

describe('catalog: items known by name alone', () => {
  const known = expandSource(
    [painted('weapon', 'AK-47 | X', 0, 1), entry('keychain', 'Charm | Austin 2025 Highlight', { defIndex: 1355 })],
    [],
  )
  const fromName = draftFromNames(known)

  it('takes what the name gives and leaves the rest null', () => {
    const draft = fromName('StatTrak™ AK-47 | Unheard Of (Well-Worn)')
    expect(draft).to.include({
      item_type: 'Weapon',
      item_subtype: 'Rifles',
      weapon_type: 'Assault Rifle',
      base_name: 'AK-47',
      skin_name: 'Unheard Of',
      wear_name: 'Well-Worn',
      is_stattrak: true,
      def_index: null,
      paint_index: null,
      rarity_name: null,
      image_url: null,
    })
  })

  it("takes a highlight charm's picture and rarity from its family, which is no item itself", () => {
    const draft = fromName('Souvenir Charm | Austin 2025 Highlight | 1v2 Clutch')
    expect(draft).to.include({
      item_subtype: 'Highlight Charm',
      is_souvenir: true,
      def_index: '1355',
      rarity_name: 'Exotic',
    })
    expect(namesOf(known.drafts)).not.to.include('Charm | Austin 2025 Highlight')
  })

  it('knows gloves from knives by their words', () => {
    expect(fromName('★ Winter Gloves | New (Field-Tested)')).to.include({ item_type: 'Weapon', weapon_type: 'Gloves' })
    expect(fromName('★ StatTrak™ New Knife | Fade (Factory New)')).to.include({
      item_subtype: 'Knives',
      weapon_type: 'Knife',
    })
  })
})
