/**
 * Whose request it is: headers count as far as trusted proxies wrote them, and what a client adds counts nothing.
 */
import { expect } from 'chai'
import fc from 'fast-check'
import { clientAddress, isLoopback, networkOf, openTrustedProxies } from '#infra/runtime/trusted-proxies.ts'

const isTrusted = openTrustedProxies(['10.0.0.0/8', '2001:db8:1::/48', '192.0.2.7'])
const PEER = '10.0.0.1'

describe('trusted proxies', () => {
  it('are networks and addresses, in any spelling', () => {
    for (const address of [
      '10.255.0.1',
      '::ffff:10.1.1.1',
      '::FFFF:10.1.1.1',
      '2001:db8:1::5',
      '2001:db8:1::5%eth0',
      '192.0.2.7',
    ])
      expect(isTrusted(address), address).to.equal(true)
    for (const address of ['11.0.0.1', '192.0.2.8', '2001:db8:2::5', '::1', 'nobody', ''])
      expect(isTrusted(address), address).to.equal(false)
  })

  for (const network of [
    '10.0.0.0/33',
    'fd00::/129',
    '10.0.0/8',
    'proxy',
    '10.0.0.0/',
    '10.0.0.0/8/9',
    '10.0.0.0/-1',
    '',
  ])
    it(`cannot be "${network}"`, () => expect(() => openTrustedProxies([network])).to.throw('is no network'))

  const cases: [what: string, peer: string, headers: Record<string, string>, client: string][] = [
    ['a peer that is none', '8.8.8.8', { 'x-forwarded-for': '1.1.1.1', forwarded: 'for=1.1.1.1' }, '8.8.8.8'],
    ['no header', PEER, {}, PEER],
    ['one hop', PEER, { 'x-forwarded-for': '1.1.1.1' }, '1.1.1.1'],
    ['what a client wrote before', PEER, { 'x-forwarded-for': '9.9.9.9, 1.1.1.1' }, '1.1.1.1'],
    ['two proxies', PEER, { 'x-forwarded-for': '9.9.9.9, 1.1.1.1, 10.2.2.2' }, '1.1.1.1'],
    ['proxies alone', PEER, { 'x-forwarded-for': '10.3.3.3, 10.2.2.2' }, '10.3.3.3'],
    ['a port', PEER, { 'x-forwarded-for': '1.1.1.1:443' }, '1.1.1.1'],
    ['a port behind brackets', PEER, { 'x-forwarded-for': '[2001:db8::9]:443' }, '2001:db8::9'],
    ['a hop that is none', PEER, { 'x-forwarded-for': '1.1.1.1, unknown' }, PEER],
    ['a hop that is none behind a proxy', PEER, { 'x-forwarded-for': 'evil, 10.2.2.2' }, '10.2.2.2'],
    ['an empty list', PEER, { 'x-forwarded-for': '' }, PEER],
    ['a mapped address', PEER, { 'x-forwarded-for': '::ffff:1.1.1.1' }, '1.1.1.1'],
    ['Forwarded', PEER, { forwarded: 'for=1.1.1.1;proto=https;by=10.0.0.1' }, '1.1.1.1'],
    ['Forwarded, quoted', PEER, { forwarded: 'For="[2001:db8::9]:4711"' }, '2001:db8::9'],
    ['Forwarded, from the right', PEER, { forwarded: 'for=9.9.9.9, for=1.1.1.1, for=10.2.2.2' }, '1.1.1.1'],
    [
      'Forwarded with a comma in quotes',
      PEER,
      { forwarded: 'for=9.9.9.9;host="a,for=8.8.8.8", for=1.1.1.1' },
      '1.1.1.1',
    ],
    ['Forwarded that hides', PEER, { forwarded: 'for=9.9.9.9, for=_hidden' }, PEER],
    ['Forwarded that names none', PEER, { forwarded: 'proto=https' }, PEER],
    ['Forwarded with an open quote', PEER, { forwarded: 'for="1.1.1.1, for=2.2.2.2' }, PEER],
    ['both, which agree', PEER, { forwarded: 'for=1.1.1.1', 'x-forwarded-for': '9.9.9.9, 1.1.1.1' }, '1.1.1.1'],
    ['both, one of them the client\u2019s', PEER, { forwarded: 'for=9.9.9.9', 'x-forwarded-for': '1.1.1.1' }, PEER],
  ]
  for (const [what, peer, headers, client] of cases)
    it(`speak for a client: ${what}`, () => expect(clientAddress(peer, headers, isTrusted)).to.equal(client))

  it('let no client choose its address, whatever it sends before its own', () => {
    const hops = fc.array(fc.oneof(fc.ipV4(), fc.ipV6(), fc.string(), fc.constant('10.2.2.2')), { maxLength: 5 })
    fc.assert(
      fc.property(hops, before => {
        const headers = { 'x-forwarded-for': [...before, '1.1.1.1'].join(', ') }
        expect(clientAddress(PEER, headers, isTrusted)).to.equal('1.1.1.1')
      }),
    )
  })

  it('know this machine, and the network that an address counts with', () => {
    for (const address of ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1'])
      expect(isLoopback(address)).to.equal(true)
    for (const address of ['128.0.0.1', '::2', '1270.0.0.1', '']) expect(isLoopback(address)).to.equal(false)
    expect(networkOf('::ffff:1.2.3.4')).to.equal('1.2.3.4')
    expect(networkOf('2001:db8:1:2:3:4:5:6')).to.equal('2001:db8:1:2')
    expect(networkOf('2001:db8::6')).to.equal('2001:db8:0:0')
  })
})
