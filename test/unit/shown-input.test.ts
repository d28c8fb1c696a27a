import { expect } from 'chai'
import fc from 'fast-check'
import { shownInput } from '#schemas/api/shown-input.ts'
import { newText } from '#services/accounts/commands.ts'
import { newKeyText } from '#services/accounts/keys/commands.ts'

describe('the input that a violation repeats', () => {
  it('is what was sent, up to 200 characters; of more, the beginning of its text', () => {
    fc.assert(
      // As it is read of a request, where there is no negative zero.
      fc.property(fc.json({ maxDepth: 5 }), json => {
        const value = JSON.parse(JSON.stringify(JSON.parse(json)))
        const text = typeof value === 'string' ? value : JSON.stringify(value)
        if (text.length <= 200) expect(shownInput(value)).to.deep.equal(value)
        else expect(shownInput(value)).to.equal(`${text.slice(0, 199)}\u2026`)
      }),
    )
  })

  it('holds no key, token or secret, wherever it was', () => {
    const texts = [
      ...[newKeyText('root'), newKeyText('child')],
      ...['whsec_', 'refresh_', 'code_', 'verify_'].map(prefix => newText(prefix)),
      `${Buffer.from('{"alg":"ES256"}').toString('base64url')}.${newText()}.${newText()}`,
    ]
    for (const text of texts) {
      for (const value of [text, `x ${text} y`, [text], { a: { b: [`Bearer ${text}`] } }]) {
        const shown = JSON.stringify(shownInput(value))
        expect(shown).to.include('[cut]')
        expect(shown).not.to.include(text.slice(-30))
      }
    }
  })

  it('can be written out however deep it was, and is that of the beginning however long', () => {
    const deep: unknown = JSON.parse(`${'['.repeat(5_000)}${']'.repeat(5_000)}`)
    expect(shownInput(deep)).to.equal(`${'['.repeat(199)}\u2026`)
    for (const part of ['eyJ', 'eyJ-', 'eyJa.b.', 'code_', 'sk_live_root_'])
      expect(shownInput(part.repeat(250_000 / part.length))).to.equal(shownInput(part.repeat(10_000 / part.length)))
  })

  it('holds no part of a secret that begins where it is cut', () => {
    const key = newKeyText('root')
    for (const value of [`${'x '.repeat(95)}${key}`, ['x '.repeat(94), key], { [key]: key }, [`\n${key}`]]) {
      expect(JSON.stringify(shownInput(value))).not.to.include(key.slice(13, 30))
    }
  })
})
