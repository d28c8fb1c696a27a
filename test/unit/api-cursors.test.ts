import { expect } from 'chai'
import fc from 'fast-check'
import { HttpError } from '#infra/http/http-error.ts'
import { openCursors } from '#services/api/cursors.ts'

const position = fc.record({
  start: fc.nat(),
  end: fc.nat(),
  after: fc.array(fc.oneof(fc.maxSafeInteger(), fc.string({ unit: 'binary' })), { maxLength: 6 }),
})

const refuses = (read: () => unknown) => {
  try {
    read()
  } catch (error) {
    if (!(error instanceof HttpError)) throw error
    expect(error.code).to.equal('VALIDATION_ERROR')
    expect(error.detail).to.have.nested.property('[0].loc').that.deep.equals(['query', 'cursor'])
    return
  }
  expect.fail('the cursor was accepted')
}

describe('a cursor', () => {
  const cursors = openCursors('a key')

  it('brings back the position that it was made of', () => {
    fc.assert(
      fc.property(position, value => {
        expect(cursors.read(['sales', {}], cursors.write(['sales', {}], value))).to.deep.equal(value)
      }),
    )
  })

  it('of other filters, another route or another key is refused', () => {
    const text = cursors.write(['sales', { item_id: 1 }], { start: 1, end: 2, after: [3, 'x'] })
    refuses(() => cursors.read(['sales', { item_id: 2 }], text))
    refuses(() => cursors.read(['history', { item_id: 1 }], text))
    refuses(() => openCursors('another key').read(['sales', { item_id: 1 }], text))
  })

  it('that was changed anywhere is refused', () => {
    const text = cursors.write(['sales', {}], { start: 1, end: 2, after: [1_772_573_669_000, 'provider_02', 'sale'] })
    const letters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    for (let i = 0; i < text.length; i++) {
      for (const letter of ['A', 'z', '_', letters[(letters.indexOf(text[i] as string) + 1) % 64] as string]) {
        if (letter === text[i]) continue
        refuses(() => cursors.read(['sales', {}], text.slice(0, i) + letter + text.slice(i + 1)))
      }
    }
  })

  it('that never was one is refused', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary' }), text => refuses(() => cursors.read([], text))))
  })
})
