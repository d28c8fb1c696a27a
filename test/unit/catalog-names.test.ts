import { expect } from 'chai'
import fc from 'fast-check'
import { crateFamily } from '#infra/config/build/categories.ts'
import { readName, WEARS, writeName } from '#infra/config/build/market-name.ts'

describe('catalog: market names', () => {
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

  it('tells a package of souvenirs from one of weapons', () =>
    expect(crateFamily('Austin 2025 Nuke Souvenir Highlight Package')).to.equal('Souvenir Package'))
})
