/** The builder against what it built: the committed catalog, whose claims are those of test/contract/catalog-*. */
import { expect } from 'chai'
import { type Draft, expandSource } from '#infra/config/build/expand.ts'
import { draftFromNames } from '#infra/config/build/observed.ts'
import { readSource, type SourceItem } from '#infra/config/build/source.ts'
import { loadPart } from '#infra/config/catalog.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { nameKey } from '#schemas/values/item-name.ts'
import { PHASES } from '#schemas/values/phase.ts'

const keyOf = ({ market_hash_name, phase }: Draft): string => nameKey(market_hash_name, phase)
const fieldsOf = ({ item_id: _, ...fields }: CatalogItem): Draft => fields

describe('catalog: expanding the source', () => {
  const [items, observed] = [loadPart('items'), loadPart('observed')]
  const source = readSource()
  const expanded = expandSource(source, [])
  const fromName = draftFromNames(expanded)

  it('gives each item of the catalog in every field, and leaves out the qualities that markets alone have shown', () => {
    const known = new Map(items.map(item => [keyOf(item), fieldsOf(item)]))
    for (const draft of expanded.drafts) expect(draft, draft.market_hash_name).to.deep.equal(known.get(keyOf(draft)))
    for (const draft of expanded.drafts) known.delete(keyOf(draft))
    for (const { is_stattrak, is_souvenir, market_hash_name } of known.values())
      expect(is_stattrak || is_souvenir, market_hash_name).to.equal(true)
    expect(known.size).to.be.within(1, expanded.drafts.length / 50)
  })

  it('takes a name that a market showed as proof of its quality, in every wear of the finish', () => {
    const names = items.map(item => item.market_hash_name)
    const withProofs = expandSource(
      source,
      names.filter(name => /Field-Tested|Factory New|Music Kit/.test(name)),
    )
    expect(withProofs.drafts.map(keyOf)).to.have.members(items.map(keyOf))
  })

  it('offers a music kit only in the quality that its box gives', () => {
    const [kit, box] = ['musickit', 'case'].map(kind => source.find(item => item.kind === kind && !item.isBase))
    if (!kit || !box) throw new Error('the source holds no music kit or case')
    const { drafts } = expandSource([kit, { ...box, contents: [kit.id], yields: ['stattrak'] }], [])
    expect(drafts.map(draft => draft.market_hash_name))
      .to.include(`StatTrak™ ${kit.name}`)
      .and.not.include(kit.name)
  })

  it('makes the finish as a whole of the ranges of all its phases', () => {
    const phased = source.find(item => item.phase !== null) as SourceItem
    const entries = ([0.05, 0.08] as const).map((maxFloat, i) => ({ ...phased, phase: PHASES[i] ?? null, maxFloat }))
    const whole = expandSource(entries, []).drafts.filter(draft => draft.phase === null && !draft.is_stattrak)
    expect(whole.map(draft => draft.wear_name)).to.deep.equal(['Factory New', 'Minimal Wear'])
  })

  it('gives an item that is known by name alone what the name gives, and nothing else', () => {
    expect(observed.length).to.be.above(500)
    for (const item of observed)
      expect(fromName(item.market_hash_name), item.market_hash_name).to.deep.equal(fieldsOf(item))
  })

  const unheard: [name: string, fields: Partial<Draft>][] = [
    [
      'StatTrak™ AK-47 | Unheard Of (Well-Worn)',
      {
        item_type: 'Weapon',
        item_subtype: 'Rifles',
        weapon_type: 'Assault Rifle',
        base_name: 'AK-47',
        skin_name: 'Unheard Of',
        wear_name: 'Well-Worn',
        is_stattrak: true,
        def_index: null,
        rarity_name: null,
      },
    ],
    ['★ Winter Gloves | New (Field-Tested)', { item_type: 'Weapon', weapon_type: 'Gloves' }],
    ['★ StatTrak™ New Knife | Fade (Factory New)', { item_subtype: 'Knives', weapon_type: 'Knife' }],
    ['Sticker | Team or player | Paris 2031', { item_type: 'Sticker', item_subtype: null }],
    ['Something unheard of', { item_type: null, item_subtype: null }],
  ]
  for (const [name, fields] of unheard) it(`reads ${name}`, () => expect(fromName(name)).to.include(fields))
})
