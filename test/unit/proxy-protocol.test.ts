/**
 * Headers of the PROXY protocol: whole, in pieces, and none.
 */
import { expect } from 'chai'
import fc from 'fast-check'
import { readProxyHeader } from '#infra/runtime/proxy-protocol.ts'

const V2 = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1')
const v2 = (command: number, family: number, addresses: readonly number[], more = 0): Buffer => {
  const length = addresses.length + more
  return Buffer.concat([
    V2,
    Buffer.from([command, family, length >> 8, length & 0xff, ...addresses]),
    Buffer.alloc(more),
  ])
}
const V6 = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9]
const MAPPED = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 1, 2, 3, 4]

describe('a header of the PROXY protocol', () => {
  const headers: [name: string, bytes: Buffer, source: string | undefined][] = [
    ['version 1', Buffer.from('PROXY TCP4 1.2.3.4 10.0.0.1 5000 443\r\n'), '1.2.3.4'],
    ['version 1, IPv6', Buffer.from('PROXY TCP6 2001:db8::9 2001:db8::1 5000 443\r\n'), '2001:db8::9'],
    ['version 1, unknown', Buffer.from('PROXY UNKNOWN ffff:f...f:ffff 1 2\r\n'), undefined],
    ['version 2', v2(0x21, 0x11, [1, 2, 3, 4, 10, 0, 0, 1, 0x13, 0x88, 1, 0xbb]), '1.2.3.4'],
    ['version 2 with additions', v2(0x21, 0x11, [1, 2, 3, 4, 10, 0, 0, 1, 0x13, 0x88, 1, 0xbb], 200), '1.2.3.4'],
    ['version 2, IPv6', v2(0x21, 0x21, [...V6, ...V6, 0, 1, 0, 2]), '2001:db8:0:0:0:0:0:9'],
    ['version 2, mapped', v2(0x21, 0x21, [...MAPPED, ...V6, 0, 1, 0, 2]), '1.2.3.4'],
    ['version 2, the proxy itself', v2(0x20, 0, []), undefined],
    ['version 2, unknown', v2(0x21, 0, [], 10), undefined],
  ]
  for (const [name, bytes, source] of headers)
    it(`is read, and nothing behind it: ${name}`, () => {
      const rest = Buffer.from('GET / HTTP/1.1\r\n')
      for (let length = 0; length < bytes.length; length += 1) {
        expect(readProxyHeader(bytes.subarray(0, length)), String(length)).to.equal('more')
      }
      expect(readProxyHeader(Buffer.concat([bytes, rest]))).to.deep.equal({ bytes: bytes.length, source })
    })

  const others: [name: string, bytes: Buffer][] = [
    ['a request', Buffer.from('GET / HTTP/1.1\r\n\r\n')],
    ['a family that does not fit', Buffer.from('PROXY TCP4 2001:db8::9 2001:db8::1 5000 443\r\n')],
    ['no family', Buffer.from('PROXY UDP4 1.2.3.4 10.0.0.1 5000 443\r\n')],
    ['no address', Buffer.from('PROXY TCP4 1.2.3.400 10.0.0.1 5000 443\r\n')],
    ['a line without end', Buffer.from(`PROXY ${'x'.repeat(200)}`)],
    ['another version', v2(0x31, 0x11, [1, 2, 3, 4, 10, 0, 0, 1, 0, 1, 0, 2])],
    ['another command', v2(0x22, 0x11, [1, 2, 3, 4, 10, 0, 0, 1, 0, 1, 0, 2])],
    ['too few addresses', v2(0x21, 0x11, [1, 2, 3, 4])],
    ['too many additions', v2(0x21, 0x11, [1, 2, 3, 4, 10, 0, 0, 1, 0, 1, 0, 2], 60_000)],
  ]
  for (const [name, bytes] of others) it(`is not ${name}`, () => expect(readProxyHeader(bytes)).to.equal('none'))

  it('never makes the reading throw', () => {
    const starts = fc.constantFrom(Buffer.from('PROXY '), V2, Buffer.alloc(0))
    fc.assert(
      fc.property(starts, fc.uint8Array({ maxLength: 300 }), (start, bytes) => {
        readProxyHeader(Buffer.concat([start, bytes]))
      }),
    )
  })
})
