import { crc32 } from 'node:zlib'
import { expect } from 'chai'
import fc from 'fast-check'
import { crc32Combine } from '#schemas/values/crc32.ts'

describe('joined CRC-32', () => {
  it('is that of the whole, however the whole is cut', () => {
    const cuts = fc.array(fc.uint8Array({ maxLength: 3_000 }), { maxLength: 12 })
    fc.assert(
      fc.property(cuts, parts => {
        const joined = parts.reduce((sum, part) => crc32Combine(sum, crc32(part), part.length), 0)
        expect(joined).to.equal(crc32(Buffer.concat(parts)))
      }),
    )
  })

  it('holds for lengths beyond 32 bits: zeros in a row', () => {
    // 2^33 zeros, doubled up from 2^12; each doubling is checked by joining it in other halves.
    let sum = crc32(Buffer.alloc(2 ** 12))
    for (let power = 12; power < 33; power++) sum = crc32Combine(sum, sum, 2 ** power)
    const third = crc32Combine(0, 0, 1)
    expect(third).to.equal(0)
    let other = 0
    for (let i = 0; i < 8; i++) other = crc32Combine(other, zeros(30), 2 ** 30)
    expect(other).to.equal(sum)
  })
})

function zeros(power: number): number {
  let sum = crc32(Buffer.alloc(2 ** 10))
  for (let at = 10; at < power; at++) sum = crc32Combine(sum, sum, 2 ** at)
  return sum
}
