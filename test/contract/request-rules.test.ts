/**
 * Made of the description alone, so that an operation which is added later is held to them too. The routes answer as in a process of
 * both roles, behind its HTTP host; nothing is behind them.
 */
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { expect } from 'chai'
import { type HttpHost, openHttpHost } from '#infra/runtime/http-host.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import { errorReply } from '#schemas/api/error.ts'
import { openAppsAlone } from '#test/fixtures/api-routes.ts'
import { filledPath, type PinnedOperation, pinnedOperations, queryOf } from '#test/fixtures/pinned-operations.ts'
import { answerOf, exchangeAt } from '#test/harness/exchange.ts'

const ID = '7d9f3c52-64a8-4a0a-9d8e-0b6f6f3f2a11'

interface Sent {
  method?: string
  contentType?: string
  /** Instead of the operation's path by example. */
  target?: string
  headers?: string[]
  body?: Buffer
}

describe('every operation', () => {
  const operations = pinnedOperations()
  const gets = operations.filter(({ method }) => method === 'GET')
  const apps = openAppsAlone()
  let host: HttpHost
  let port: number

  before('a process of both roles', async () => {
    host = openHttpHost({ host: '127.0.0.1', port: 0, metrics: openMetrics() })
    host.mount(['/'], apps.api)
    host.mount(['/feed', '/v1/feed'], apps.feed)
    ;({ port } = await host.listen())
  })
  after('end of the process', () => host.close())

  const pathOf = (operation: PinnedOperation): string =>
    filledPath(
      operation,
      operation.pathParameters.map(name => (name === 'item_id' ? '1' : ID)),
    )

  /** Sends a request as it is; one of the operation's own examples where nothing else is said. */
  async function send(operation: PinnedOperation, sent: Sent = {}) {
    const { method = operation.method, target = pathOf(operation) + queryOf(operation), headers } = sent
    const { contentType = 'application/json' } = sent
    const { body = operation.body && Buffer.from(JSON.stringify(operation.body.example)) } = sent
    const head = [
      `${method} ${target} HTTP/1.1`,
      ...['Host: t', 'Connection: close', 'X-Request-Id: one'],
      ...(headers ?? ['Authorization: Bearer k']),
      ...(body ? [`Content-Type: ${contentType}`, `Content-Length: ${body.length}`] : []),
    ]
    const bytes = Buffer.from(`${head.join('\r\n')}\r\n\r\n`)
    const answer = answerOf(await exchangeAt(port, body ? Buffer.concat([bytes, body]) : bytes))
    const at = `${method} ${target}: ${answer.status} ${answer.text.slice(0, 300)}`
    if (answer.status >= 400) errorReply.parse(JSON.parse(answer.text))
    return { ...answer, at }
  }

  /** What is wrong with the parameters of a request, by name. */
  async function faultsOf(
    operation: PinnedOperation,
    query: string,
  ): Promise<Map<string, { type: string; ctx: object }>> {
    const { status, text, at } = await send(operation, { target: `${pathOf(operation)}?${query}` })
    if (status < 400) return new Map()
    expect(status, at).to.equal(422)
    const faults: { type: string; loc: string[]; ctx: object; msg: string }[] = JSON.parse(text).detail
    return new Map(faults.map(({ type, loc, ctx }) => [loc.slice(1).join(' '), { type, ctx }]))
  }

  it('refuses a parameter of its own in other letters or with brackets, and names the right one', async () => {
    const spellings: ((name: string) => string)[] = [
      name => `${name}[]`,
      name => `${name}[0]`,
      name => `${name}%5B%5D`,
      name => name.toUpperCase(),
      name => name.replace(/^./, letter => letter.toUpperCase()),
      name => name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase()),
    ]
    for (const operation of operations) {
      const names = operation.queryParameters.map(({ name }) => name)
      // Feeds take `lastEventId` too, as a polyfill writes it, and say how it should be written.
      for (const name of names.filter(one => one !== 'lastEventId')) {
        for (const spelled of spellings.map(spell => spell(name)).filter(one => !names.includes(one))) {
          const faults = await faultsOf(operation, `${spelled}=x`)
          expect(
            faults.get(decodeURIComponent(spelled)),
            `${operation.method} ${operation.path}?${spelled}`,
          ).to.deep.equal({
            type: 'extra_forbidden',
            ctx: { expected: name },
          })
        }
      }
    }
  })

  it('ignores other parameters that it does not know, and refuses them where it is asked to be strict', async () => {
    for (const operation of operations) {
      expect((await faultsOf(operation, 'colour=red&utm_source=x')).has('colour'), operation.path).to.equal(false)
    }
    for (const operation of gets) {
      const names = operation.queryParameters.map(({ name }) => name)
      expect(names, operation.path).to.include('strict')
      const nearest = names.find(name => name !== 'strict') ?? 'strict'
      for (const value of ['true', 'True', 'TRUE']) {
        const faults = await faultsOf(operation, `${nearest}x=1&strict=${value}`)
        const expected = { type: 'extra_forbidden', ctx: { expected: nearest } }
        expect(faults.get(`${nearest}x`), `${operation.path} ${nearest}x`).to.deep.equal(expected)
      }
      expect((await faultsOf(operation, `${nearest}x=1&strict=false`)).has(`${nearest}x`), operation.path).to.equal(
        false,
      )
      expect((await faultsOf(operation, 'strict=perhaps')).get('strict')?.type, operation.path).to.equal('bool_parsing')
    }
  })

  it('answers a target that names a host as it answers the path alone', async () => {
    for (const operation of operations) {
      const path = pathOf(operation) + queryOf(operation)
      for (const query of ['', `${path.includes('?') ? '&' : '?'}colour=%zz`]) {
        const [plain, absolute] = await Promise.all(
          ['', 'http://api.example.com:8080'].map(root => send(operation, { target: root + path + query })),
        )
        expect([absolute?.status, absolute?.text], absolute?.at).to.deep.equal([plain?.status, plain?.text])
      }
    }
  })

  it('refuses what cannot be decoded, in its path and in its query', async () => {
    for (const operation of operations) {
      for (const part of ['%', '%zz', '%ff', '%ed%a0%80']) {
        for (const target of [`${operation.path.replace(/\{\w+\}|$/, part)}`, `${pathOf(operation)}?a=${part}`]) {
          const { status, at } = await send(operation, { target: target.replaceAll(/[{}]/g, '') })
          expect(status, at).to.equal(400)
        }
      }
    }
  })

  it('takes a JSON body in UTF-8 alone, and takes no text for one that it is not', async () => {
    const withBody = operations.filter(({ body }) => body)
    expect(withBody).to.have.length.above(10)
    for (const operation of withBody) {
      const example = JSON.stringify(operation.body?.example)
      const { status: plain } = await send(operation)
      const ended = (text: string, encoding: BufferEncoding) => Buffer.from(example.replace(/}$/, text), encoding)
      const expectStatus = async (status: number, sent: Sent, what: string) => {
        const answer = await send(operation, sent)
        expect(answer.status, `${what}: ${answer.at}`).to.equal(status)
      }
      for (const [what, body] of [
        ['Latin-1', ended(',"a":"caf\xe9"}', 'latin1')],
        ['half a sign', ended(',"a":"\xe2\x98"}', 'latin1')],
        ['a surrogate', ended(',"a":"\xed\xa0\x80"}', 'latin1')],
        ['a long form', ended(',"a":"\xc0\x80"}', 'latin1')],
        ['UTF-16', Buffer.from(example, 'utf16le')],
        ['UTF-16 with a mark', Buffer.from(`\uFEFF${example}`, 'utf16le')],
      ] as const) {
        await expectStatus(400, { body }, what)
      }
      for (const charset of ['latin1', 'iso-8859-1', 'utf-16', 'utf-16le', 'us-ascii', '"utf-7"']) {
        const body = Buffer.from(example, charset.startsWith('utf-16') ? 'utf16le' : 'utf8')
        await expectStatus(415, { body, contentType: `application/json; charset=${charset}` }, charset)
      }
      for (const charset of ['utf-8', 'UTF-8', '"utf-8"']) {
        await expectStatus(plain, { contentType: `application/json; charset=${charset}` }, charset)
      }
      await expectStatus(plain, { body: Buffer.from(`\uFEFF${example}`) }, 'a mark')
      // A sign like any other.
      const { status, text } = await send(operation, { body: ended(',"\uFFFD":1}', 'utf8') })
      expect([status, text], operation.path).to.satisfy(() => status === 422 && text.includes('["body","\uFFFD"]'))
    }
  })

  it('is open to pages of any origin, with whatever headers, and asking for that is not counted', async () => {
    const asked = 'authorization, if-none-match, traceparent, baggage, x-anything'
    const preflight = ['Origin: https://a.example', 'Access-Control-Request-Method: GET']
    const before = apps.counted()
    for (const operation of operations) {
      for (const headers of [[...preflight, `Access-Control-Request-Headers: ${asked}`], preflight, []]) {
        const { status, headers: got, at } = await send(operation, { method: 'OPTIONS', headers })
        expect(status, at).to.equal(204)
        expect(got.get('access-control-allow-origin'), at).to.equal('*')
        expect(got.get('access-control-allow-methods')?.split(', '), at).to.include(operation.method)
        expect(got.get('allow'), at).to.equal(got.get('access-control-allow-methods'))
        expect(got.get('access-control-allow-headers'), at).to.equal(headers.length === 3 ? asked : null)
        expect(got.get('vary'), at).to.equal('Access-Control-Request-Headers')
        expect(got.get('access-control-max-age'), at).to.equal('86400')
      }
    }
    expect(apps.counted()).to.equal(before)
    const [first] = operations as [PinnedOperation]
    for (const target of ['/v1/nothing', '/v1/feed/nothing']) {
      const { status, headers } = await send(first, { method: 'OPTIONS', target, headers: preflight })
      expect([status, headers.get('access-control-allow-origin')], target).to.deep.equal([404, '*'])
    }
  })

  it('shows pages of any origin its headers, whatever it answers', async () => {
    const shown = [
      ...['etag', 'content-disposition', 'retry-after', 'x-request-id', 'ratelimit', 'ratelimit-policy', 'allow'],
      ...['limit', 'remaining', 'reset', 'tier'].map(name => `x-ratelimit-${name}`),
      ...['timestamp', 'currency', 'total'].map(name => `x-snapshot-${name}`),
    ]
    for (const operation of operations) {
      for (const sent of [{}, { headers: [] }, { method: 'PUT' }, { target: '/v1/feed/%' }, { target: '/v1/feed#' }]) {
        const { headers, at } = await send(operation, sent)
        expect(headers.get('access-control-allow-origin'), at).to.equal('*')
        const exposed = headers.get('access-control-expose-headers')?.toLowerCase().split(', ')
        expect(exposed, at).to.include.members(shown)
      }
    }
  })

  describe('with a body that is refused', () => {
    const operationAt = (name: string): PinnedOperation =>
      operations.find(one => one.name === name) ?? expect.fail(`there is no ${name}`)
    const listOf = (entry: string, count: number): string => `[${Array(count).fill(entry).join(',')}]`

    it('bounds what it unpacks by what was sent', async () => {
      const operation = operationAt('POST /v1/portfolio/value')
      const packed = (coding: string) => ['Authorization: Bearer k', `Content-Encoding: ${coding}`]
      const bomb = `{"items":[],"providers":${listOf('1', 125_000)}}`
      for (const [coding, body] of [
        ['gzip', gzipSync(bomb)],
        ['br', brotliCompressSync(bomb)],
      ] as const) {
        const { status, at } = await send(operation, { body, headers: packed(coding) })
        expect(status, at).to.equal(413)
      }
      const items = Array.from({ length: 100 }, (_, i) => ({ item_id: i + 1, quantity: 1 + (i % 7) }))
      const sound = gzipSync(JSON.stringify({ items, providers: null, currency: 'USD' }))
      expect((await send(operation, { body: sound, headers: packed('gzip') })).status).to.equal(200)
    })

    it('describes the first twenty of its faults, counts the others, and names what would do once', async () => {
      const operation = operationAt('POST /v1/prices/batch')
      const item_ids = Array.from({ length: 50 }, () => 'x'.repeat(500))
      const refusalOf = async (text: string) => (await send(operation, { body: Buffer.from(text) })).text
      const { detail, omitted } = JSON.parse(await refusalOf(JSON.stringify({ item_ids, providers: ['nobody'], a: 1 })))
      expect([detail.length, omitted]).to.deep.equal([20, 32])
      expect(detail[0].input).to.equal(`${'x'.repeat(199)}\u2026`)
      const text = await refusalOf('{"item_ids":[1],"providers":["nobody"]}')
      expect(text.match(/provider_41/g)).to.have.length(1)
      expect(JSON.parse(text).detail[0].ctx.expected).to.include("'provider_02'")
      const long = JSON.parse(await refusalOf(`{"item_ids":[1],"providers":${listOf('1', 1_000)}}`))
      expect(long.detail.map(({ type }: { type: string }) => type)).to.deep.equal(['too_long'])
    })
  })
})
