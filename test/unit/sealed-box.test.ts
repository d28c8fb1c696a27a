import { expect } from 'chai'
import fc from 'fast-check'
import { isSecretKey, newSecretKey, openSealedBox } from '#infra/runtime/sealed-box.ts'

describe('the sealed box', () => {
  const key = newSecretKey()
  const box = openSealedBox(key)

  it('opens what it sealed, and never seals alike', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), fc.string(), (text, context) => {
        const sealed = box.seal(text, context)
        expect(box.open(sealed, context)).to.equal(text)
        expect(box.seal(text, context)).not.to.equal(sealed)
        expect(sealed).to.match(/^v1\.[A-Za-z0-9_-]+$/)
      }),
    )
  })

  it('refuses another context, another key and any bit that was changed', () => {
    const sealed = box.seal('whsec_something', 'webhooks/1')
    expect(() => box.open(sealed, 'webhooks/2')).to.throw()
    expect(() => openSealedBox(newSecretKey()).open(sealed, 'webhooks/1')).to.throw()
    const bytes = Buffer.from(sealed.slice(3), 'base64url')
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const changed = Buffer.from(bytes)
      changed[bit >> 3] = (changed[bit >> 3] as number) ^ (1 << (bit & 7))
      expect(() => box.open(`v1.${changed.toString('base64url')}`, 'webhooks/1'), `bit ${bit}`).to.throw()
    }
    for (const text of ['', 'v1.', 'v1.AAAA', 'whsec_something', sealed.slice(0, -2)]) {
      expect(() => box.open(text, 'webhooks/1'), text).to.throw()
    }
  })

  it('takes a key of 32 bytes and nothing else', () => {
    for (const text of ['', 'short', 'A'.repeat(42), 'A'.repeat(45), `${'A'.repeat(42)}!=`]) {
      expect(isSecretKey(text), text).to.equal(false)
      expect(() => openSealedBox(text)).to.throw(/MARKETLOG_SECRET_KEY/)
    }
    expect(isSecretKey(key)).to.equal(true)
  })
})
