import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { connect } from 'node:net'
import { expect } from 'chai'
import { type HttpHost, type HttpLimits, openHttpHost } from '#infra/runtime/http-host.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import { errorReply } from '#schemas/api/error.ts'
import { eventually, within } from '#test/harness/eventually.ts'
import { answerOf, dial, exchangeAt } from '#test/harness/exchange.ts'

const PATIENT: HttpLimits = { idleMs: 600_000, headersMs: 600_000, requestMs: 600_000, checkEveryMs: 20 }

describe('the HTTP host', () => {
  let host: HttpHost
  let port: number
  let operatorPort: number
  /** What the mounted handler was given: method, URL, body. */
  let served: string[] = []
  let waiting: ServerResponse[] = []

  const open = async (limits?: HttpLimits): Promise<void> => {
    host = openHttpHost({ host: '127.0.0.1', port: 0, metrics: openMetrics(), limits })
    host.mount(['/'], (request, response) => {
      const line = `${request.method} ${request.url}`
      let body = ''
      request.setEncoding('utf8').on('data', text => {
        body += text
      })
      request.on('end', () => {
        served.push(body === '' ? line : `${line} ${body}`)
        if (request.url === '/slow') waiting.push(response)
        else response.end('done')
      })
    })
    ;({ port, operatorPort } = await host.listen())
  }
  beforeEach('a host', async () => {
    served = []
    waiting = []
    await open()
  })
  afterEach('end of the host', () => host.close())

  const say = (bytes: string, at = port): Promise<string> => exchangeAt(at, Buffer.from(bytes, 'latin1'))

  function expectRefusal(answer: string, status: number, code: string): void {
    const { status: found, headers, text } = answerOf(answer)
    expect(found, answer).to.equal(status)
    expect(errorReply.parse(JSON.parse(text)).code).to.equal(code)
    expect(headers.get('connection')).to.equal('close')
    for (const name of ['x-request-id', 'access-control-allow-origin', 'x-content-type-options']) {
      expect(headers.has(name), name).to.equal(true)
    }
    expect(answer.match(/HTTP\/1\.1 \d/g), 'answers').to.have.length(1)
  }

  const HOST = 'Host: a\r\n'
  const SMUGGLED = 'GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n'
  const get = (headers: string): string => `GET / HTTP/1.1\r\n${HOST}${headers}\r\n\r\n`
  /** Another request lies behind what may be taken for the body. */
  const post = (headers: string, body = ''): string => `POST / HTTP/1.1\r\n${HOST}${headers}\r\n\r\n${body}${SMUGGLED}`
  const malformed: [name: string, bytes: string][] = [
    ['both lengths', post('Content-Length: 4\r\nTransfer-Encoding: chunked', '0\r\n\r\n')],
    ['both lengths, the other way', post('Transfer-Encoding: chunked\r\nContent-Length: 4', '0\r\n\r\n')],
    ['two lengths that differ', post('Content-Length: 4\r\nContent-Length: 5', 'abcd')],
    ['two lengths that agree', post('Content-Length: 4\r\nContent-Length: 4', 'abcd')],
    ['a list of lengths', post('Content-Length: 4, 4', 'abcd')],
    ['a negative length', post('Content-Length: -1')],
    ['a signed length', post('Content-Length: +4', 'abcd')],
    ['a hexadecimal length', post('Content-Length: 0x4', 'abcd')],
    ['an unknown coding', post('Transfer-Encoding: xchunked', '0\r\n\r\n')],
    ['a coding after chunked', post('Transfer-Encoding: chunked, identity', '0\r\n\r\n')],
    ['a coding before chunked', post('Transfer-Encoding: identity, chunked', '0\r\n\r\n')],
    ['a blank before the colon', post('Transfer-Encoding : chunked', '0\r\n\r\n')],
    ['a folded header', get('X-A: b\r\n c')],
    ['a folded first header', `GET / HTTP/1.1\r\n ${HOST}\r\n`],
    ['a bare line feed in a header', get('X-A: b\nX-B: c')],
    ['a bare carriage return in a header', get('X-A: b\rX-B: c')],
    ['a NUL in a header', get('X-A: b\0c')],
    ['a bad size of a chunk', post('Transfer-Encoding: chunked', 'zz\r\n\r\n')],
    ['a header without a name', get(': b')],
    ['no version that is known', `GET / HTTP/9.9\r\n${HOST}\r\n`],
    ['no HTTP', 'hello\r\n\r\n'],
    ['a method that is none', `G(T / HTTP/1.1\r\n${HOST}\r\n`],
    ['TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    ['no host', 'GET / HTTP/1.1\r\n\r\n'],
    ['two hosts', get('Host: b')],
    ['two credentials', get('Authorization: Bearer a\r\nAuthorization: Bearer b')],
    ['two types', `POST / HTTP/1.1\r\n${HOST}Content-Type: a/b\r\nContent-Type: c/d\r\nContent-Length: 0\r\n\r\n`],
    ['a proxied host', `CONNECT a:443 HTTP/1.1\r\n${HOST}\r\n`],
    ['a host as target', `GET a:80 HTTP/1.1\r\n${HOST}\r\n`],
    ['an address without a host', `GET http:///a HTTP/1.1\r\n${HOST}\r\n`],
    ['an address of another scheme', `GET ftp://a/b HTTP/1.1\r\n${HOST}\r\n`],
    ['an asterisk of another method', `GET * HTTP/1.1\r\n${HOST}\r\n`],
    ['more than an asterisk', `OPTIONS *a HTTP/1.1\r\n${HOST}\r\n`],
    ['a fragment', `GET /a?q=b#c HTTP/1.1\r\n${HOST}\r\n`],
    ['a target in Latin-1', `GET /caf\xe9 HTTP/1.1\r\n${HOST}\r\n`],
    ['a target in UTF-8', `GET /a?q=\xe2\x98\x85 HTTP/1.1\r\n${HOST}\r\n`],
  ]
  for (const [name, bytes] of malformed)
    it(`refuses ${name}`, async () => {
      expectRefusal(await say(bytes), 400, 'BAD_REQUEST')
      expect(served.filter(line => line.includes('smuggled'))).to.deep.equal([])
    })

  it('says what to do with a target that holds more than ASCII', async () => {
    for (const at of [port, operatorPort])
      expect(await say(`GET /\xe2\x98\x85 HTTP/1.1\r\n${HOST}\r\n`, at)).to.match(
        /^HTTP\/1.1 400 [\s\S]*percent-encode/,
      )
  })

  it('hands an address of any host to its handlers as a path', async () => {
    const [close, target] = ['Connection: close\r\n', 'http://127.0.0.1:8080']
    for (const [url, path] of [
      [`${target}/v1/fx?a=1`, '/v1/fx?a=1'],
      ['HTTPS://u:p@[::1]:8443/a//b', '/a//b'],
      [target, '/'],
      [`${target}?a=/b`, '/?a=/b'],
      ['//a/b', '//a/b'],
    ]) {
      served = []
      expect(await say(`GET ${url} HTTP/1.1\r\n${HOST}${close}\r\n`), url).to.match(/^HTTP\/1.1 200 /)
      expect(served, url).to.deep.equal([`GET ${path}`])
    }
    for (const path of ['/healthz', '/readyz', '/metrics']) {
      const answer = await say(`GET ${target}${path} HTTP/1.1\r\n${HOST}${close}\r\n`, operatorPort)
      expect(answer, path).to.match(/^HTTP\/1.1 200 /)
    }
    expect(await say(`GET ${target}/healthz HTTP/1.1\r\n${HOST}${close}\r\n`)).to.include('{"status":"ok"}')
    const whole = answerOf(await say(`OPTIONS * HTTP/1.1\r\n${HOST}${close}\r\n`))
    expect([whole.status, whole.headers.get('allow')]).to.deep.equal([204, 'GET, HEAD, POST, PATCH, DELETE, OPTIONS'])
  })

  it('answers its operator apart: clients are told that it lives, and nothing more', async () => {
    const ask = (at: number, path: string) => fetch(`http://127.0.0.1:${at}${path}`)
    for (const at of [port, operatorPort]) expect((await ask(at, '/healthz')).status).to.equal(200)
    expect((await ask(operatorPort, '/readyz')).status).to.equal(200)
    expect(await (await ask(operatorPort, '/metrics')).text()).to.include('process_cpu_seconds_total')
    expect((await ask(operatorPort, '/a')).status).to.equal(404)
    for (const path of ['/readyz', '/metrics']) expect(await (await ask(port, path)).text()).to.equal('done')
    expect(served).to.deep.equal(['GET /readyz', 'GET /metrics'])
  })

  it('refuses what it is expected to do and does not know', async () => {
    expectRefusal(await say(post('Expect: 200-ok\r\nContent-Length: 3', 'abc')), 417, 'EXPECTATION_FAILED')
    expect(served).to.deep.equal([])
  })

  it('refuses headers that are too large', async () => {
    const long = 'a'.repeat(20_000)
    for (const bytes of [get(`X-A: ${long}`), `GET /${long} HTTP/1.1\r\n${HOST}\r\n`, get('X-A: b\r\n'.repeat(5_000))])
      expectRefusal(await say(bytes), 431, 'REQUEST_HEADERS_TOO_LARGE')
    expect(served).to.deep.equal([])
  })

  it('waits for neither headers nor bodies longer than its limits, and drops an idle connection', async () => {
    const reopen = async (limits: Partial<HttpLimits>): Promise<void> => {
      await host.close()
      await open({ ...PATIENT, ...limits })
    }
    await reopen({ headersMs: 150 })
    expectRefusal(await say(`GET / HTTP/1.1\r\n${HOST}X-A: `), 408, 'REQUEST_TIMEOUT')
    await reopen({ headersMs: 150, requestMs: 200 })
    expectRefusal(await say(`POST / HTTP/1.1\r\n${HOST}Content-Length: 10\r\n\r\nabc`), 408, 'REQUEST_TIMEOUT')
    await reopen({ idleMs: 150 })
    const { socket, text, ended } = await dial(port)
    socket.write(`GET /a HTTP/1.1\r\n${HOST}\r\n`)
    await within(ended, 'the idle connection to end')
    expect(text()).to.match(/^HTTP\/1.1 200 /)
  })

  it('drains: refuses new connections, answers what is under way, then ends its connections', async () => {
    const [busy, idle] = [await dial(port), await dial(port)]
    idle.socket.write(`GET /a HTTP/1.1\r\n${HOST}\r\n`)
    busy.socket.write(`GET /slow HTTP/1.1\r\n${HOST}\r\n`)
    await eventually(() => waiting.length === 1 && idle.text() !== '', 'both requests')
    const closed = host.close()
    await within(idle.ended, 'the idle connection to end')
    const late = connect(port, '127.0.0.1')
    const [error] = await once(late, 'error')
    expect(error.code).to.equal('ECONNREFUSED')
    waiting[0]?.end('late')
    await within(closed, 'the host to close')
    await within(busy.ended, 'the busy connection to end')
    expect(busy.text()).to.match(/late/)
  })
})
