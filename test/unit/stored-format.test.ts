import { expect } from 'chai'
import { formatOf, parseStored, UnknownFormat } from '#schemas/values/stored-format.ts'
import { isOwnFormat, LIVE_FORMAT, parseHead, parseManifest } from '#streams/live-view/table.ts'

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

  it('of a later version is unavailable to every reader, and no table of its owner', () => {
    const later = `{"format":${LIVE_FORMAT + 1},"generation":1,"next":0,"ask":{},"bid":{}}`
    for (const parse of [parseHead, parseManifest]) expect(() => parse(later)).to.throw(UnknownFormat)
    expect([isOwnFormat(JSON.parse(later)), isOwnFormat({ ...JSON.parse(later), format: LIVE_FORMAT })]).to.deep.equal([
      false,
      true,
    ])
  })
})
