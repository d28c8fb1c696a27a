import { constants, crc32, createGunzip, deflateRawSync } from 'node:zlib'
import { expect } from 'chai'
import fc from 'fast-check'
import { preparedBody } from '#services/api/deflated-bodies.ts'

describe('prepared answers', () => {
  const gunzipped = async (bytes: Buffer): Promise<{ text: string; left: number }> => {
    const gunzip = createGunzip()
    const parts: Buffer[] = []
    gunzip.end(bytes)
    for await (const part of gunzip) parts.push(part)
    return { text: Buffer.concat(parts).toString(), left: bytes.length - gunzip.bytesWritten }
  }

  it('inflate to what is sent plain, in one member', () =>
    fc.assert(
      fc.asyncProperty(fc.string(), fc.string({ maxLength: 4_000 }), fc.string(), async (before, rows, after) => {
        const text = Buffer.from(rows)
        const deflated = deflateRawSync(text, { finishFlush: constants.Z_FULL_FLUSH })
        const prepared = { text, deflated, crc: crc32(text) }
        const plain = Buffer.concat(preparedBody(before, prepared, after, 'identity'))
        expect(plain.toString()).to.equal(Buffer.from(before + rows + after).toString())
        expect(await gunzipped(Buffer.concat(preparedBody(before, prepared, after, 'gzip')))).to.deep.equal({
          text: plain.toString(),
          left: 0,
        })
      }),
    ))

  it('are refused by a reader when a byte is wrong', async () => {
    const text = Buffer.from('{"a":1}')
    const deflated = deflateRawSync(text, { finishFlush: constants.Z_FULL_FLUSH })
    const body = Buffer.concat(preparedBody('[', { text, deflated, crc: crc32(text) + 1 }, ']', 'gzip'))
    const failed = await gunzipped(body).then(
      () => undefined,
      (error: Error) => error.message,
    )
    expect(failed).to.match(/incorrect data check/)
  })
})
