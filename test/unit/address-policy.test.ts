import { expect } from 'chai'
import fc from 'fast-check'
import { isLocalName, isPublic, literalAddress, openAddressPolicy } from '#infra/outbound/address-policy.ts'
import { openOutbound } from '#infra/outbound/post.ts'

const PUBLIC = '8.8.8.8 1.1.1.1 93.184.216.34 2606:4700::1111 2a00:1450:4001:82a::200e 64:ff9b::808:808'.split(' ')

const SPECIAL = [
  ...['0.0.0.0', '0.1.2.3', '10.0.0.1', '100.64.0.1', '100.100.100.200', '127.0.0.1', '127.255.255.254'],
  ...['169.254.169.254', '169.254.170.2', '172.16.0.1', '172.31.255.255', '192.0.0.1', '192.0.2.1', '192.88.99.1'],
  ...['192.168.1.1', '198.18.0.1', '198.51.100.1', '203.0.113.1', '224.0.0.1', '239.255.255.255', '240.0.0.1'],
  ...['255.255.255.255', '168.63.129.16'],
  ...['::', '::1', '::127.0.0.1', '::ffff:127.0.0.1', '::ffff:7f00:1', '::ffff:169.254.169.254', '::ffff:0:127.0.0.1'],
  ...['64:ff9b::7f00:1', '64:ff9b::10.0.0.1', '64:ff9b:1::1', '100::1', '2001::1', '2001:0:7f00:1::', '2001:db8::1'],
  ...['2001:2::1', '2001:10::1', '2001:20::1', '2002:7f00:1::', '2002:a00:1::1', '3fff::1', '5f00::1', 'fc00::1'],
  ...['fd00:ec2::254', 'fe80::1', 'fe80::1%eth0', 'fec0::1', 'ff02::1', '4000::1', '2606:4700::5efe:7f00:1'],
  ...['2606:4700::200:5efe:a00:1', 'localhost', '', '1.2.3', '2130706433', '300.1.1.1'],
]

describe('the policy of addresses', () => {
  for (const address of PUBLIC) it(`lets ${address} pass`, () => expect(isPublic(address)).to.equal(true))
  for (const address of SPECIAL)
    it(`refuses ${address || 'an empty text'}`, () => expect(isPublic(address)).to.equal(false))

  it('judges a mapped and a translated address as the address inside', () => {
    fc.assert(
      fc.property(fc.ipV4(), address => {
        expect(isPublic(`::ffff:${address}`)).to.equal(isPublic(address))
        expect(isPublic(`64:ff9b::${address}`)).to.equal(isPublic(address))
      }),
    )
  })

  it('judges any address of the second family without throwing', () => {
    fc.assert(
      fc.property(fc.ipV6(), address => {
        expect(isPublic(address)).to.be.a('boolean')
      }),
    )
  })

  it('reads brackets, and takes a name for none', () => {
    expect(literalAddress(new URL('http://[::1]:9/'))).to.equal('::1')
    expect(literalAddress(new URL('http://example.com/'))).to.equal(undefined)
  })

  it('knows names that are local by themselves, in any spelling', () => {
    const local = 'localhost LOCALHOST. a.localhost ⓛocalhost printer.local a.b.internal redis'.split(' ')
    const others = 'example.com local.example notlocal.example mylocalhost.example 127.0.0.1 [::1]'.split(' ')
    for (const host of [...local, ...others])
      expect(isLocalName(new URL(`http://${host}:9/`)), host).to.equal(local.includes(host))
  })

  // Any port of a public host could be named: a mail server's, a database's.
  it('lets pass the ports of the web alone on public hosts, unless others are named', () => {
    const policies = [openAddressPolicy(['127.0.0.1:9000']), openAddressPolicy([], [8443])]
    const ports = [80, 443, 25, 5432, 8443, 9000]
    expect(policies.map(policy => ports.filter(port => policy.allows('93.184.216.34', port)))).to.deep.equal([
      [80, 443],
      [8443],
    ])
    expect(policies.map(policy => ports.filter(port => policy.allowsPort(port)))).to.deep.equal([
      [80, 443, 9000],
      [8443],
    ])
  })

  it('refuses a URL with another port when it is created, for a name too', () => {
    const { refuses } = openOutbound({ allow: [], dns: [] })
    for (const url of ['http://example.com:25/', 'https://example.com:8443/', 'http://93.184.216.34:22/'])
      expect(refuses(new URL(url)), url).to.equal(true)
    for (const url of ['http://example.com/', 'https://example.com:443/', 'http://example.com:443/'])
      expect(refuses(new URL(url)), url).to.equal(false)
  })

  it('lets pass what is allowed, at that port alone and in any spelling', () => {
    const policy = openAddressPolicy(['127.0.0.1:9000', '[::1]:9001'])
    expect(policy.allows('127.0.0.1', 9000)).to.equal(true)
    expect(policy.allows('::ffff:127.0.0.1', 9000)).to.equal(true)
    expect(policy.allows('::1', 9001)).to.equal(true)
    for (const [address, port] of [
      ['127.0.0.1', 9001],
      ['127.0.0.2', 9000],
      ['::1', 9000],
    ] as const)
      expect(policy.allows(address, port), `${address} ${port}`).to.equal(false)
    expect(() => openAddressPolicy(['localhost:9000'])).to.throw('MARKETLOG_WEBHOOK_ALLOW')
  })
})
