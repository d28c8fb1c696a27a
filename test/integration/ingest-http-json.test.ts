/** Each case serves its own script of answers; what the server saw is compared with what was meant. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import { expect } from 'chai'
import { type Market, parseMarket } from '#infra/config/market.ts'
import { openHttpJson } from '#services/ingest/connectors/http-json/client.ts'
import { rateTable } from '#services/ingest/fx/rate-table.ts'
import type { Connector, FailedRefresh, Refresh, SourceSettings } from '#services/ingest/source.ts'
import { within } from '#test/harness/eventually.ts'
import { type Listening, listen } from '#test/harness/listen.ts'

type Handler = (request: IncomingMessage, response: ServerResponse, count: number) => void

const feed: SourceSettings = { provider: 'provider_02', side: 'ask', intervalMs: 60_000, currency: 'CNY' }
const MAPPING = '$.{"market_hash_name": name, "price": $minor(cost), "quantity": n}'
const rates = rateTable(0, 'test', new Map())
const variable = (name: string) => `$\{${name}}`
const rowsOf = (...names: string[]) => names.map(name => ({ name, cost: '1.25', n: 2 }))
const entriesOf = (...names: string[]) => names.map(name => ({ market_hash_name: name, price: 125, quantity: 2 }))
const json = (response: ServerResponse, body: unknown, headers: Record<string, string> = {}) =>
  response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))

describe('ingest: polled HTTP providers', () => {
  const servers: Listening[] = []
  let requests: IncomingMessage[] = []

  afterEach(async () => {
    await Promise.all(servers.splice(0).map(server => server.close()))
    requests = []
  })

  async function serve(handler: Handler): Promise<string> {
    const answering = createServer((request, response) => {
      requests.push(request)
      handler(request, response, requests.length)
    })
    const server = await listen(answering)
    servers.push(server)
    return `http://127.0.0.1:${server.port}`
  }

  function open(url: string, over: object = {}, env: Record<string, string> = {}): Connector {
    const options = { url, mapping: MAPPING, retry_after_ms: 1, ...over }
    const text = JSON.stringify({
      name: 'test',
      feeds: [{ provider: 'p', side: 'ask', connector: 'http-json', interval_ms: 60_000, options }],
    })
    const [parsed] = parseMarket(text, '/market.json').feeds as Extract<
      Market['feeds'][number],
      { connector: 'http-json' }
    >[]
    return openHttpJson(feed, (parsed as Extract<Market['feeds'][number], { connector: 'http-json' }>).options, env)
  }

  async function poll(connector: Connector, now = 1_000, signal = new AbortController().signal) {
    const polled: (Refresh | FailedRefresh)[] = []
    for await (const one of connector.poll({ at: now, now, after: undefined, rates, signal })) polled.push(one)
    return polled
  }

  async function refreshOf(connector: Connector, now = 1_000) {
    const [refresh] = await poll(connector, now)
    if (refresh?.kind !== 'refresh') throw new Error(`${refresh?.reason}: ${refresh?.detail}`)
    return { ...refresh, entries: JSON.parse(JSON.stringify([...refresh.entries])) }
  }

  async function reasonOf(connector: Connector) {
    const [failed] = await poll(connector)
    if (failed?.kind !== 'failed') throw new Error('the refresh did not fail')
    return failed
  }

  it('reads entries in the provider’s currency, observed when asked, with headers from the environment', async () => {
    const url = await serve((_, response) => json(response, rowsOf('a', 'b')))
    const over = { headers: { Authorization: `Bearer ${variable('API_KEY')}` } }
    const refresh = await refreshOf(open(`${url}/v1`, over, { API_KEY: 'k1' }), 77)
    expect(refresh).to.deep.equal({ kind: 'refresh', observedAt: 77, currency: 'CNY', entries: entriesOf('a', 'b') })
    expect(requests[0]?.headers.authorization).to.equal('Bearer k1')
  })

  it('names variables that are missing before anything is asked', () => {
    const over = { headers: { authorization: variable('API_KEY'), 'x-id': variable('API_ID') } }
    expect(() => open('http://127.0.0.1:1', over)).to.throw(/provider_02 needs API_KEY, API_ID in the environment/)
    expect(() => open(`${variable('HOST')}/v1`)).to.throw(/HOST/)
  })

  it('reads every page, compressed or not', async () => {
    const pages = [rowsOf('a', 'b'), rowsOf('c', 'd'), rowsOf('e')]
    const url = await serve((request, response) => {
      const skip = Number(new URL(request.url ?? '', 'http://x').searchParams.get('skip'))
      const body = gzipSync(JSON.stringify({ rows: pages[skip / 2] }))
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(body)
    })
    const paging = { by: 'offset', parameter: 'skip', step: 2 }
    expect((await refreshOf(open(url, { rows: 'rows', paging }))).entries).to.deep.equal(
      entriesOf('a', 'b', 'c', 'd', 'e'),
    )
    expect(requests.map(request => request.url)).to.deep.equal(['/?skip=0', '/?skip=2', '/?skip=4'])
  })

  it('publishes unchanged pages again, observed now (304), and reads changed ones again', async () => {
    let version = 1
    const url = await serve((request, response) => {
      const page = new URL(request.url ?? '', 'http://x').searchParams.get('c') ?? '1'
      const etag = page === '2' ? `"v${version}"` : '"first"'
      if (request.headers['if-none-match'] === etag) return response.writeHead(304).end()
      return json(response, { rows: rowsOf(`${page}-${version}`), next: page === '1' ? '2' : null }, { etag })
    })
    const connector = open(url, { rows: 'rows', paging: { by: 'cursor', parameter: 'c', next: 'next' } })
    const first = await refreshOf(connector, 1_000)
    const second = await refreshOf(connector, 2_000)
    expect(second).to.deep.equal({ ...first, observedAt: 2_000 })
    expect(second.entries).to.deep.equal(entriesOf('1-1', '2-1'))
    version = 2
    expect((await refreshOf(connector, 3_000)).entries).to.deep.equal(entriesOf('1-1', '2-2'))
    expect(requests.map(request => request.headers['if-none-match'])).to.deep.equal([
      ...[undefined, undefined],
      ...['"first"', '"v1"'],
      ...['"first"', '"v1"'],
    ])
  })

  it('asks by date where there is no ETag, and keeps its pages over a failed refresh', async () => {
    const stamp = 'Wed, 04 Mar 2026 08:11:52 GMT'
    const url = await serve((request, response, count) => {
      if (count === 2) return response.writeHead(404).end()
      if (request.headers['if-modified-since'] === stamp) return response.writeHead(304).end()
      return json(response, rowsOf('a'), { 'last-modified': stamp })
    })
    const connector = open(url)
    await refreshOf(connector)
    expect(await reasonOf(connector)).to.include({ reason: 'http_status' })
    expect((await refreshOf(connector, 9_000)).entries).to.deep.equal(entriesOf('a'))
    expect(requests[2]?.headers['if-modified-since']).to.equal(stamp)
  })

  it('tries again after 500, a cut connection, 429 and no answer in time', async () => {
    const url = await serve((request, response, count) => {
      if (count === 1) return response.writeHead(500).end()
      if (count === 2) return request.socket.destroy()
      if (count === 3) return response.writeHead(429, { 'retry-after': '1' }).end()
      return count === 4 ? undefined : json(response, rowsOf('a'))
    })
    // On a slow machine later answers come too late as well.
    const connector = open(url, { request_timeout_ms: 500, retries: 10 })
    expect((await refreshOf(connector)).entries).to.deep.equal(entriesOf('a'))
    expect(requests.length).to.be.at.least(5)
  })

  it('does not try again before it was asked to, be all the time of the refresh over', async () => {
    for (const wish of ['2.5', new Date(Date.now() + 60_000).toUTCString()]) {
      const from = requests.length
      const url = await serve((_, response) => response.writeHead(429, { 'retry-after': wish }).end())
      const { reason, detail } = await reasonOf(open(url, { total_timeout_ms: 500 }))
      expect({ reason, asked: requests.length - from }).to.deep.equal({ reason: 'http_status', asked: 1 })
      expect(detail).to.match(/answered 429, and wants no request for (3|59|60) s$/)
    }
  })

  it('used to poll again at once where it was asked to wait for longer than a refresh may take', async () => {
    const url = await serve((_, response) => response.writeHead(503, { 'retry-after': '600' }).end())
    const connector = open(url, { total_timeout_ms: 50 })
    expect(await reasonOf(connector)).to.include({ reason: 'http_status' })
    expect(await poll(connector)).to.deep.equal([])
    expect(requests).to.have.length(1)
  })

  it('gives up after its tries, and at once where a retry cannot help', async () => {
    const failing = await serve((_, response) => response.writeHead(503).end())
    expect(await reasonOf(open(failing, { retries: 2 }))).to.include({ reason: 'http_status' })
    expect(requests).to.have.length(3)
    const refusing = await serve((_, response) => response.writeHead(403).end())
    expect((await reasonOf(open(`${refusing}/v1?token=s3cret`))).detail).to.match(/\/v1: answered 403$/)
    expect(requests).to.have.length(4)
  })

  it('bounds each request and the refresh as a whole in time', async () => {
    const url = await serve(() => undefined)
    const slowRequest = await within(reasonOf(open(url, { request_timeout_ms: 50, retries: 1 })))
    expect(slowRequest).to.include({ reason: 'timeout' })
    expect(slowRequest.detail).to.include('no answer in 50 ms')
    const slowRefresh = await within(reasonOf(open(url, { request_timeout_ms: 60_000, total_timeout_ms: 50 })))
    expect(slowRefresh).to.include({ reason: 'timeout' })
    expect(slowRefresh.detail).to.include('within the refresh')
    const endless = await serve((_, response, count) => json(response, { next: String(count), rows: rowsOf('a') }))
    const paging = { by: 'cursor', parameter: 'c', next: 'next' }
    const reason = await within(reasonOf(open(endless, { paging, rows: 'rows', max_pages: 10 })))
    expect(reason).to.include({ reason: 'too_many_pages' })
  })

  it('stops reading a body that grows beyond its bound, decompressed', async () => {
    const bomb = gzipSync(Buffer.alloc(8 * 2 ** 20, 0x20))
    const url = await serve((_, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb))
    expect(await reasonOf(open(url, { max_bytes: 2 ** 20 }))).to.include({ reason: 'too_large' })
    const pages = await serve((_, response, count) => json(response, { next: String(count), rows: rowsOf('a') }))
    const paging = { by: 'cursor', parameter: 'c', next: 'next' }
    expect(await reasonOf(open(pages, { paging, rows: 'rows', max_bytes: 500 }))).to.include({ reason: 'too_large' })
    expect(requests.length).to.be.below(20)
  })

  const status =
    (code: number, location = '/'): Handler =>
    (_, response) =>
      response.writeHead(code, { location }).end()
  const body =
    (text: string | Buffer): Handler =>
    (_, response) =>
      response.end(text)
  const broken: [string, string, Handler, object?][] = [
    ['no JSON', 'bad_json', body('<html>busy</html>')],
    ['a cut body', 'bad_json', body('[{"name":"a","cost":1')],
    ['no UTF-8', 'bad_text', body(Buffer.from([0x22, 0xff, 0xfe, 0x22]))],
    ['rows that the mapping cannot take', 'bad_mapping', body('[{"name":"a"}]'), { mapping: '$sum($.name)' }],
    ['a page that leads to itself', 'paging', body('{"next":"?"}'), { paging: { by: 'link', next: 'next' } }],
    ['a redirect in a circle', 'redirect', status(302)],
    ['a redirect to a file', 'redirect', status(302, 'file:///etc/passwd')],
    ['304 to an unconditional request', 'http_status', status(304)],
  ]
  for (const [what, reason, handler, over] of broken) {
    it(`${what} fails the refresh: ${reason}`, async () => {
      expect(await reasonOf(open(await serve(handler), over))).to.include({ reason, observedAt: 1_000 })
    })
  }

  it('follows a redirect, without its headers when the origin is another', async () => {
    const target = await serve((_, response) => json(response, rowsOf('a')))
    const url = await serve((request, response) =>
      request.url === '/'
        ? response.writeHead(307, { location: '/near' }).end()
        : response.writeHead(302, { location: target }).end(),
    )
    const connector = open(url, { headers: { 'x-api-key': variable('K') } }, { K: 's3cret' })
    expect((await refreshOf(connector)).entries).to.deep.equal(entriesOf('a'))
    expect(requests.map(request => request.headers['x-api-key'])).to.deep.equal(['s3cret', 's3cret', undefined])
  })

  it('gives nothing, and fails nothing, when the process stops', async () => {
    const url = await serve(() => undefined)
    const stop = new AbortController()
    const polled = poll(open(url), 1_000, stop.signal)
    stop.abort()
    expect(await within(polled)).to.deep.equal([])
  })
})
