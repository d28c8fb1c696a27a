import { expect } from 'chai'
import fc from 'fast-check'
import { categoriesFromWords, crateFamily } from '#infra/config/build/categories.ts'
import { graphicFinish, readName, splitBase, WEARS, writeName } from '#infra/config/build/market-name.ts'

describe('catalog: market names', () => {
  const cases = [
    { name: 'AK-47 | Redline (Field-Tested)', parts: [false, false, false, 'AK-47 | Redline', 'Field-Tested'] },
    { name: '★ StatTrak™ Karambit', parts: [true, true, false, 'Karambit', null] },
    {
      name: 'Souvenir AWP | Dragon Lore (Factory New)',
      parts: [false, false, true, 'AWP | Dragon Lore', 'Factory New'],
    },
    { name: 'Souvenir Charm | X Highlight | 1v2', parts: [false, false, true, 'Charm | X Highlight | 1v2', null] },
    { name: 'StatTrak™ Music Kit | A, B', parts: [false, true, false, 'Music Kit | A, B', null] },
    { name: 'StatTrak™ Swap Tool', parts: [false, false, false, 'StatTrak™ Swap Tool', null] },
    {
      name: 'Rio 2022 Viewer Pass + 3 Souvenir Tokens',
      parts: [false, false, false, 'Rio 2022 Viewer Pass + 3 Souvenir Tokens', null],
    },
  ] as const
  for (const { name, parts } of cases) {
    it(`reads ${name}`, () => {
      const read = readName(name)
      expect([read.isStar, read.isStattrak, read.isSouvenir, read.base, read.wear]).to.deep.equal(parts)
    })
  }

  it('writes back whatever it read, for any text', () => {
    const piece = fc.constantFrom(
      '★ ',
      'StatTrak™ ',
      'Souvenir ',
      ' (Field-Tested)',
      ' (Factory New)',
      ' | ',
      'Tool',
      'AK-47',
    )
    const text = fc.array(fc.oneof(piece, fc.string())).map(pieces => pieces.join(''))
    fc.assert(
      fc.property(text, name => writeName(readName(name)) === name),
      { numRuns: 2_000 },
    )
  })

  it('reads back whatever it wrote from a plain base', () => {
    const parts = fc.record({
      isStar: fc.boolean(),
      quality: fc.constantFrom('none', 'stattrak', 'souvenir'),
      base: fc.constantFrom('AK-47 | Redline', 'Karambit', 'Music Kit | A, B', 'Nova | Wurst Hölle'),
      wear: fc.constantFrom(null, ...WEARS.map(wear => wear.name)),
    })
    fc.assert(
      fc.property(parts, ({ isStar, quality, base, wear }) => {
        const whole = { isStar, isStattrak: quality === 'stattrak', isSouvenir: quality === 'souvenir', base, wear }
        expect(readName(writeName(whole))).to.deep.equal(whole)
      }),
    )
  })

  it('splits a base at its first bar only', () => {
    expect(splitBase('Sticker | apEX | Paris 2023')).to.deep.equal({ group: 'Sticker', rest: 'apEX | Paris 2023' })
    expect(splitBase('Fever Case')).to.deep.equal({ group: 'Fever Case', rest: null })
  })

  it('covers the whole float range with the five wears, without gap or overlap', () => {
    expect(WEARS[0]?.from).to.equal(0)
    expect(WEARS.at(-1)?.to).to.equal(1)
    for (const [i, wear] of WEARS.slice(1).entries()) expect(wear.from).to.equal(WEARS[i]?.to)
  })

  it('reads a finish only where the name holds one', () => {
    expect(graphicFinish('Sticker | apEX (Holo, Champion) | Budapest 2025')).to.equal('Holo')
    expect(graphicFinish('Sticker | Boom(Foil)')).to.equal('Foil')
    expect(graphicFinish('Sticker | apEX (Champion) | Paris 2023')).to.equal(null)
  })

  it('reads the type from words, and null where there is none', () => {
    const typeOf = (base: string) => {
      const { item_type, item_subtype } = categoriesFromWords(base, false)
      return [item_type, item_subtype]
    }
    expect(typeOf('Gift Package')).to.deep.equal(['Tool', 'Gift'])
    expect(typeOf('Paris 2023 Viewer Pass + 3 Souvenir Tokens')).to.deep.equal(['Pass', 'Viewer Pass'])
    expect(typeOf('#CSGO_crate_musickit_masterminds2_capsule')).to.deep.equal(['Crate', 'Music Kit Box'])
    expect(crateFamily('Austin 2025 Nuke Souvenir Highlight Package')).to.equal('Souvenir Package')
    expect(typeOf('Sticker | Unheard Of (Holo)')).to.deep.equal(['Sticker', 'Standard'])
    expect(typeOf('Sticker | Team or player | Paris 2031')).to.deep.equal(['Sticker', null])
    expect(typeOf('Something unheard of')).to.deep.equal([null, null])
  })
})
