import { expect } from 'chai'
import fc from 'fast-check'
import { isLoopback, networkOf, openClientOf, openTrustedProxies } from '#infra/runtime/trusted-proxies.ts'

const NETWORKS = ['10.0.0.0/8', '2001:db8:1::/48', '192.0.2.7']
const isTrusted = openTrustedProxies(NETWORKS)
const clientOf = (remoteAddress: string, headers: Record<string, string>) =>
  openClientOf(NETWORKS)({ socket: { remoteAddress }, headers })
const PEER = '10.0.0.1'

describe('trusted proxies', () => {
  it('are networks and addresses, in any spelling', () => {
    const spellings = '10.255.0.1 ::ffff:10.1.1.1 ::FFFF:10.1.1.1 2001:db8:1::5 2001:db8:1::5%eth0 192.0.2.7'
    for (const address of spellings.split(' ')) expect(isTrusted(address), address).to.equal(true)
    for (const address of ['11.0.0.1', '192.0.2.8', '2001:db8:2::5', '::1', 'nobody', ''])
      expect(isTrusted(address), address).to.equal(false)
  })

  for (const network of ['', ...'10.0.0.0/33 fd00::/129 10.0.0/8 proxy 10.0.0.0/ 10.0.0.0/8/9 10.0.0.0/-1'.split(' ')])
    it(`cannot be "${network}"`, () => expect(() => openTrustedProxies([network])).to.throw('is no network'))

  const cases: [what: string, peer: string, headers: Record<string, string>, client: string][] = [
    ['a peer that is none', '8.8.8.8', { 'x-forwarded-for': '1.1.1.1' }, '8.8.8.8'],
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
  ]
  for (const [what, peer, headers, client] of cases)
    it(`speak for a client: ${what}`, () => expect(clientOf(peer, headers)).to.equal(client))

  it('let no client choose its address, whatever it sends before its own', () => {
    const hops = fc.array(fc.oneof(fc.ipV4(), fc.ipV6(), fc.string(), fc.constant('10.2.2.2')), { maxLength: 5 })
    fc.assert(
      fc.property(hops, before => {
        const headers = { 'x-forwarded-for': [...before, '1.1.1.1'].join(', ') }
        expect(clientOf(PEER, headers)).to.equal('1.1.1.1')
      }),
    )
  })

  it('know this machine, and the network that an address counts with', () => {
    for (const address of ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1'])
      expect(isLoopback(address)).to.equal(true)
    for (const address of ['128.0.0.1', '::2', '1270.0.0.1', '']) expect(isLoopback(address)).to.equal(false)
    expect(networkOf('::ffff:1.2.3.4')).to.equal('1.2.3.4')
    expect(networkOf('2001:db8:1:2:3:4:5:6')).to.equal('2001:db8:1:2::')
    for (const spelling of ['2001:db8::6', '2001:0DB8:0:0::7']) expect(networkOf(spelling)).to.equal('2001:db8::')
  })
})
