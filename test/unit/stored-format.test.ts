import { expect } from 'chai'
import { formatOf, parseStored, UnknownFormat } from '#schemas/values/stored-format.ts'
import { LIVE_FORMAT, parseHead, parseManifest, SNAPSHOT_FORMAT } from '#streams/live-view/table.ts'
import { parseHealthHead } from '#streams/provider-health/table.ts'

describe('a stored form', () => {
  const decoders = { 1: ({ rows }: { rows: number }) => [rows], 2: ({ all }: { all: number[] }) => all }
  const read = (text: string) => parseStored('the table', text, decoders)

  it('is read by the decoder of its version, one without a version as the first', () => {
    expect([read('{"rows":3}'), read('{"format":1,"rows":3}'), read('{"format":2,"all":[4]}')]).to.deep.equal([
      [3],
      [3],
      [4],
    ])
  })

  it('is refused by name in a version that comes later', () => {
    expect(() => read('{"format":3}')).to.throw(
      UnknownFormat,
      'the table is stored in version 3 of its form, and this process reads 1, 2',
    )
    expect(formatOf({ format: 'x' })).to.be.NaN
  })

  it('of a later version is unavailable to every reader', () => {
    const later = Math.max(LIVE_FORMAT, SNAPSHOT_FORMAT) + 1
    const text = `{"format":${later},"version":1,"next":0,"ask":{},"bid":{}}`
    for (const parse of [parseHead, parseManifest, parseHealthHead]) expect(() => parse(text)).to.throw(UnknownFormat)
  })
})
