/**
 * Hostile destinations: no URL, redirect or name leads a webhook to an address that is not public.
 *
 * Listeners are on the loopback addresses of both families, on the port that every hostile URL names, and count
 * connections. The test is one of absence: each post has ended with its verdict before the count is read.
 */
import { networkInterfaces } from 'node:os'
import { expect } from 'chai'
import { type Outbound, openOutbound, type PostResult } from '#infra/outbound/post.ts'
import { type NameServer, openNameServer } from '#test/fixtures/name-server.ts'
import { openReceiver, type Receiver, status } from '#test/fixtures/webhook-receiver.ts'

const PUBLIC = '93.184.216.34'
/** Longer than any of the tests: what ends, ends for another reason. */
const NEVER_MS = 600_000
const never = new AbortController().signal

/** Names of the test's own zone and the addresses that they resolve to, by question. */
const NAMES: Record<string, (n: number, family: 4 | 6) => string[]> = {
  'loopback.example': () => ['127.0.0.1'],
  'loopback6.example': (_n, family) => (family === 6 ? ['::1'] : []),
  'mapped.example': (_n, family) => (family === 6 ? ['::ffff:127.0.0.1'] : []),
  'private.example': () => ['10.0.0.1'],
  'metadata.example': () => ['169.254.169.254'],
  'mixed.example': () => [PUBLIC, '127.0.0.1'],
  'mixed-families.example': (_n, family) => (family === 6 ? ['::1'] : [PUBLIC]),
  'private-last.example': () => [PUBLIC, '1.1.1.1', '8.8.8.8', '192.168.0.1'],
  'own-interface.example': () => [ownAddress()],
}

/**
 * Every host here must be refused without a connection, at the port of the listeners; which addresses are public is claimed in
 * unit/address-policy.test.ts.
 */
const HOSTILE = [
  ...['127.0.0.1', '127.0.0.2', '127.1', '127.0.1', '2130706433', '0x7f000001', '0x7f.1', '017700000001', '0177.0.0.1'],
  ...['127.0.0.1.', '①②⑦.⓪.⓪.①', '１２７.０.０.１', '127。0。0。1', '%31%32%37.0.0.1', '0', '0.0.0.0', '0x0'],
  ...[
    '[::1]',
    '[::]',
    '[0:0:0:0:0:0:0:1]',
    '[::ffff:127.0.0.1]',
    '[::ffff:7f00:1]',
    '[::127.0.0.1]',
    '[64:ff9b::7f00:1]',
  ],
  ...['[2002:7f00:1::]', '[fe80::1]', '[fd00:ec2::254]', '10.0.0.1', '169.254.169.254', '0xa9fea9fe', '2852039166'],
  ...['localhost', 'LOCALHOST', 'localhost.', 'a.localhost', 'ⓛocalhost', 'LOOPBACK.example.', ...Object.keys(NAMES)],
]
  .map(host => `http://${host}:PORT/`)
  .concat(['https://localhost:PORT/', 'https://127.0.0.1:PORT/', 'https://loopback.example:PORT/'])

/** URLs that no URL parser of ours takes: with a zone, or several hosts. */
const UNREADABLE = ['http://[fe80::1%25lo]:PORT/', 'http://[::1%lo]:PORT/', 'http://127.0.0.1:PORT:80/', 'http://[::1/']

describe('hostile destinations', () => {
  let listeners: Receiver[]
  let names: NameServer
  let outbound: Outbound
  before('listeners on one port of every address of this machine, and a name server', async () => {
    names = await openNameServer((name, family, n) => {
      // Allowed when it is looked up first, forbidden ever after.
      if (name === 'rebinding.example') return family === 6 ? [] : [n === 1 ? '127.0.0.2' : '127.0.0.1']
      if (name === 'allowed.example') return family === 4 ? ['127.0.0.1'] : []
      if (name === 'silent.example') return undefined
      return NAMES[name]?.(n, family) ?? []
    })
    listeners = [await openReceiver('::')]
    // Their port is allowed, so that what is refused is refused for its address.
    outbound = openOutbound({ allow: [], ports: [80, 443, port()], dns: [names.address], dnsLimitMs: NEVER_MS })
  })
  after('end of the listeners', async () => {
    for (const listener of listeners) await listener.close()
    await names.close()
  })

  const port = () => listeners[0]?.port ?? 0
  const connections = () => listeners.reduce((sum, listener) => sum + listener.connections(), 0)
  const post = (url: string, by = outbound, limitMs = NEVER_MS): Promise<PostResult> =>
    by.post({ url: url.replace('PORT', String(port())), headers: {}, body: '{}', limitMs, signal: never })

  it('have listeners that receive what reaches them', async () => {
    for (const host of ['127.0.0.1', '127.0.0.2', '[::1]', ownAddress()]) {
      const before = connections()
      await (await fetch(`http://${host}:${port()}/`, { method: 'POST' })).arrayBuffer()
      expect(connections(), host).to.equal(before + 1)
    }
  })

  for (const url of HOSTILE)
    it(`${url} is refused without a connection`, async () => {
      const before = connections()
      expect(await post(url)).to.deep.equal({ kind: 'refused' })
      expect(connections()).to.equal(before)
    })

  for (const url of UNREADABLE)
    it(`${url} is no URL, and reaches no listener`, async () => {
      const before = connections()
      expect(URL.canParse(url.replace('PORT', String(port())))).to.equal(false)
      expect((await post(url)).kind).to.equal('unreachable')
      expect(connections()).to.equal(before)
    })

  it('a name that is allowed when judged and forbidden when asked again is resolved once, and leads to the judged address', async () => {
    const judged = await openReceiver('127.0.0.2')
    const url = `http://rebinding.example:${judged.port}/`
    const allow = [`127.0.0.2:${judged.port}`]
    const allowing = openOutbound({ allow, dns: [names.address], dnsLimitMs: NEVER_MS })
    expect(await post(url, allowing)).to.include({ kind: 'answered', status: 200 })
    expect(names.asked('rebinding.example'), 'one question per family').to.equal(2)
    expect(await post(url, allowing)).to.deep.equal({ kind: 'refused' })
    expect(judged.connections()).to.equal(1)
    await judged.close()
  })

  describe('redirects', () => {
    let door: Receiver
    let allowing: Outbound
    before('a destination that is allowed', async () => {
      door = await openReceiver()
      allowing = openOutbound({ allow: [`127.0.0.1:${door.port}`], dns: [names.address], dnsLimitMs: NEVER_MS })
    })
    after('end of it', () => door.close())

    for (const code of [301, 302, 303, 307, 308])
      it(`of ${code} are not followed`, async () => {
        for (const target of ['http://127.0.0.1:PORT/', 'http://[::1]:PORT/', '//localhost:PORT/']) {
          door.answerWith(status(code, { location: target.replace('PORT', String(port())) }))
          const before = connections()
          const result = await post(`http://127.0.0.1:${door.port}/`, allowing)
          expect(result).to.include({ kind: 'answered', status: code })
          expect(connections(), target).to.equal(before)
        }
      })

    it('an allowed address is allowed at its port alone, by address or by a name that leads there', async () => {
      door.answerWith(status(204))
      expect(await post(`http://127.0.0.1:${door.port}/`, allowing)).to.include({ kind: 'answered', status: 204 })
      expect(await post(`http://allowed.example:${door.port}/`, allowing)).to.include({ kind: 'answered', status: 204 })
      const before = connections()
      expect(await post('http://127.0.0.1:PORT/', allowing)).to.deep.equal({ kind: 'refused' })
      expect(await post('http://allowed.example:PORT/', allowing)).to.deep.equal({ kind: 'refused' })
      expect(connections()).to.equal(before)
    })

    it('refuses literal forbidden addresses and local names before anything is sent, and leaves other names to the connection', () => {
      for (const host of ['localhost', 'a.localhost', 'printer.local', 'metadata.google.internal', 'redis'])
        expect(outbound.refuses(new URL(`http://${host}/`)), host).to.equal(true)
      expect(outbound.refuses(new URL('http://0x7f.1/'))).to.equal(true)
      expect(outbound.refuses(new URL('http://[::ffff:10.0.0.1]/'))).to.equal(true)
      expect(outbound.refuses(new URL('http://loopback.example/'))).to.equal(false)
      expect(outbound.refuses(new URL(`http://${PUBLIC}/`))).to.equal(false)
      expect(allowing.refuses(new URL(door.url))).to.equal(false)
    })

    it('ends at the limit when no server answers and when the name server is silent, and without one when an answer drips', async () => {
      door.answerWith(() => undefined)
      expect(await post(`http://127.0.0.1:${door.port}/`, allowing, 300)).to.deep.equal({ kind: 'timeout' })
      const impatient = openOutbound({ allow: [], ports: [door.port], dns: [names.address] })
      expect(await post(`http://silent.example:${door.port}/`, impatient, 300)).to.deep.equal({ kind: 'timeout' })
      const drips = Promise.withResolvers<void>()
      door.answerWith(response => {
        response.writeHead(200).write('first')
        const timer = setInterval(() => response.write('.'), 50)
        response.on('close', () => {
          clearInterval(timer)
          drips.resolve()
        })
      })
      const result = await post(`http://127.0.0.1:${door.port}/`, allowing)
      expect(result).to.include({ kind: 'answered', status: 200 })
      await drips.promise
    })

    it('reads no more of an endless answer than it shows, and no headers without end', async () => {
      let written = 0
      door.answerWith(response => {
        response.writeHead(200)
        const more = () => {
          while (!response.destroyed && response.write('x'.repeat(65_536))) written += 65_536
          if (!response.destroyed) response.once('drain', more)
        }
        more()
      })
      const result = await post(`http://127.0.0.1:${door.port}/`, allowing)
      expect(result.kind === 'answered' && result.excerpt.length).to.equal(4_096)
      // What was not read is what two sockets hold at most.
      expect(written).to.be.below(64_000_000)
      door.answerWith(response => void response.writeHead(200, { 'x-long': 'y'.repeat(100_000) }).end())
      expect((await post(`http://127.0.0.1:${door.port}/`, allowing)).kind).to.equal('unreachable')
    })

    it('reports errors without addresses', async () => {
      const closed = await openReceiver()
      const away = openOutbound({ allow: [`127.0.0.1:${closed.port}`], dns: [] })
      await closed.close()
      const result = await post(closed.url, away)
      expect(result).to.deep.equal({ kind: 'unreachable', reason: 'The connection was refused.' })
      const nowhere = await post('http://nowhere.example:PORT/')
      expect(nowhere).to.deep.equal({ kind: 'unreachable', reason: 'The host name does not resolve.' })
    })
  })
})

/** An address of this machine that is not the loopback; the loopback where it has no other. */
function ownAddress(): string {
  const all = Object.values(networkInterfaces()).flatMap(addresses => addresses ?? [])
  const own = all.find(({ family, internal, address }) => family === 'IPv4' && !internal && isPrivate(address))
  return own?.address ?? '127.0.0.3'
}

const isPrivate = (address: string): boolean => /^(10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.)/.test(address)
