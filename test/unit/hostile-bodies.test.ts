/**
 * What a refusal is: of every operation, however a request is built, 64 KiB of answer at most. One list of
 * bad provider keys of 97 packed bytes used to be answered with 5 MB, a body of `null` with a 500.
 */
import { createServer, type Server } from 'node:http'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { expect } from 'chai'
import fc from 'fast-check'
import { openApiDocument } from '#infra/http/openapi.ts'
import { errorReply } from '#schemas/api/error.ts'
import { openAppsAlone, operationsDescribed } from '#test/fixtures/api-routes.ts'
import { filledPath, queryOf, type SweptOperation, sweptOperations } from '#test/fixtures/hostile-requests.ts'
import { answerOf, exchange } from '#test/harness/exchange.ts'

const ERROR_BYTES = 64 * 1024
const BODY_BYTES = 256 * 1024
const URL_BYTES = 15_000
const ID = '7d9f3c52-64a8-4a0a-9d8e-0b6f6f3f2a11'

interface Sent {
  path: string
  body?: string | Buffer
  coding?: string
}

describe('a refusal', () => {
  const operations = sweptOperations(openApiDocument(operationsDescribed(), { baseUrl: '' }), () => true)
  const withBody = operations.filter(({ body }) => body)
  let server: Server

  before('all operations, without what they do', () => {
    server = createServer(openAppsAlone().whole)
  })

  async function send({ method }: SweptOperation, { path, body, coding }: Sent) {
    const bytes = Buffer.from(body ?? '')
    const head = [
      `${method} ${path} HTTP/1.1`,
      ...['Host: t', 'Connection: close', 'Authorization: Bearer k'],
      ...(body === undefined ? [] : ['Content-Type: application/json', `Content-Length: ${bytes.length}`]),
      ...(coding === undefined ? [] : [`Content-Encoding: ${coding}`]),
    ]
    return answerOf(await exchange(server, Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), bytes])))
  }

  const pathOf = (operation: SweptOperation): string =>
    filledPath(
      operation,
      operation.pathParameters.map(() => ID),
    ) + queryOf(operation)

  async function expectShort(operation: SweptOperation, sent: Sent, what: string): Promise<number> {
    const { status, text } = await send(operation, sent)
    const at = `${operation.method} ${operation.path}, ${what}: ${status}, ${text.length} bytes`
    expect(status, at).to.be.within(200, 499)
    if (status < 400) return status
    expect(Buffer.byteLength(text), at).to.be.at.most(ERROR_BYTES)
    errorReply.parse(JSON.parse(text))
    return status
  }

  /** A text of JSON that fills what a body may hold. */
  const listOf = (entry: string, bytes = BODY_BYTES - 100): string =>
    `[${Array.from({ length: Math.floor(bytes / (entry.length + 1)) }, () => entry).join(',')}]`
  const membersOf = (bytes: number): string => {
    const names: string[] = []
    for (let i = 0, size = 0; size < bytes; i += 1) size += (names[names.push(`"k${i}":1`) - 1] as string).length + 1
    return `{${names.join(',')}}`
  }

  /** Values with the most faults, each of which a member may be set to. */
  const faulty: [what: string, json: string][] = [
    ...['1', 'null', '"x"', '"\\u0000"', '{}', '[]', '{"a":1,"b":2}', '"💥💥"'].map((entry): [string, string] => [
      `a list of ${entry}`,
      listOf(entry),
    ]),
    ...['1', '"x"', '{}', '{"a":1,"b":2}'].flatMap((entry): [string, string][] =>
      [100, 200, 10_000].map(length => [
        `${length} times ${entry}`,
        `[${Array.from({ length }, () => entry).join(',')}]`,
      ]),
    ),
    ['100 objects of many members', `[${Array.from({ length: 100 }, () => membersOf(2_000)).join(',')}]`],
    ['many members', membersOf(BODY_BYTES - 5_000)],
    ['a long name', `{"${'\\u0001'.repeat(40_000)}":1}`],
    ['a long text', `"${'\\u0001'.repeat(40_000)}"`],
    ['a deep list', `${'['.repeat(100_000)}${']'.repeat(100_000)}`],
    ['a deep object', `${'{"a":'.repeat(30_000)}1${'}'.repeat(30_000)}`],
  ]

  const bodiesOf = ({ body }: SweptOperation): [what: string, text: string][] => {
    const { example = {}, schema = {} } = body ?? {}
    return [
      ...faulty.map(([what, json]): [string, string] => [`whole body ${what}`, json]),
      ...Object.keys(schema.properties ?? {}).flatMap(name => {
        const others = Object.entries(example).filter(([other]) => other !== name)
        const members = others.map(([other, value]) => `${JSON.stringify(other)}:${JSON.stringify(value)}`)
        return faulty.map(([what, json]): [string, string] => [
          `${name} ${what}`,
          `{${[...members, `"${name}":${json}`].join(',')}}`,
        ])
      }),
    ]
  }

  it('of a body is bounded in bytes, packed or not', async () => {
    for (const operation of withBody) {
      const path = pathOf(operation)
      await send(operation, { path, body: JSON.stringify(operation.body?.example) })
      let refused = 0
      for (const [what, body] of bodiesOf(operation)) {
        if ((await expectShort(operation, { path, body }, what)) >= 400) refused += 1
      }
      expect(refused, operation.path).to.be.above(faulty.length)
    }
  })

  it('of a packed body is bounded by what was sent', async () => {
    const operation = withBody.find(({ path }) => path === '/v1/portfolio/value') ?? expect.fail('no valuation')
    const path = pathOf(operation)
    const bomb = `{"items":[],"providers":${listOf('1', 250_000)}}`
    for (const [coding, body] of [
      ['gzip', gzipSync(bomb)],
      ['br', brotliCompressSync(bomb)],
    ] as const) {
      expect(await expectShort(operation, { path, body, coding }, coding)).to.equal(413)
    }
    const items = Array.from({ length: 100 }, (_, i) => ({ item_id: i + 1, quantity: 1 + (i % 7) }))
    const sound = gzipSync(JSON.stringify({ items, providers: null, currency: 'USD' }))
    expect((await send(operation, { path, body: sound, coding: 'gzip' })).status).to.equal(200)
  })

  it('of parameters is bounded in bytes', async () => {
    for (const operation of operations) {
      const plain = pathOf(operation).split('?', 1)[0] as string
      for (const { name } of operation.queryParameters) {
        for (const value of ['x', '', '%00', '%F0%9F%92%A5']) {
          const pair = `${name}=${value}`
          const query = Array.from({ length: Math.floor(URL_BYTES / (pair.length + 1)) }, () => pair).join('&')
          await expectShort(operation, { path: `${plain}?${query}` }, `${name} repeated`)
        }
        await expectShort(operation, { path: `${plain}?${name}=${'%01'.repeat(URL_BYTES / 3)}` }, `a long ${name}`)
      }
    }
  })

  it('describes the first twenty of its faults and counts the others', async () => {
    const operation = withBody.find(({ path }) => path === '/v1/prices/batch') ?? expect.fail('no batch')
    const item_ids = Array.from({ length: 50 }, () => 'x'.repeat(500))
    const { status, text } = await send(operation, {
      path: pathOf(operation),
      body: JSON.stringify({ item_ids, providers: ['nobody'], a: 1 }),
    })
    expect(status).to.equal(422)
    const { detail, omitted } = JSON.parse(text)
    expect([detail.length, omitted]).to.deep.equal([20, 32])
    expect(detail[0].input).to.equal(`${'x'.repeat(199)}\u2026`)
  })

  it('names what would do once', async () => {
    const operation = withBody.find(({ path }) => path === '/v1/prices/batch') ?? expect.fail('no batch')
    const { text } = await send(operation, { path: pathOf(operation), body: '{"item_ids":[1],"providers":["nobody"]}' })
    expect(text.match(/provider_41/g)).to.have.length(1)
    expect(JSON.parse(text).detail[0].ctx.expected).to.include("'provider_02'")
  })

  it('of a list comes before its entries are looked at', async () => {
    const lists: string[] = []
    const visit = (schema: unknown, at: string): void => {
      if (typeof schema !== 'object' || schema === null) return
      const { type, maxItems } = schema as { type?: string; maxItems?: number }
      if (type === 'array') {
        lists.push(at)
        expect(maxItems, at).to.be.a('number')
      }
      for (const [name, one] of Object.entries(schema)) visit(one, `${at} ${name}`)
    }
    for (const { path, body } of withBody) visit(body?.schema, path)
    expect(lists).to.have.length.above(5)
    const operation = withBody.find(({ path }) => path === '/v1/prices/batch') ?? expect.fail('no batch')
    const body = `{"item_ids":[1],"providers":${listOf('1', 2_000)}}`
    const { text } = await send(operation, { path: pathOf(operation), body })
    expect(JSON.parse(text).detail.map(({ type }: { type: string }) => type)).to.deep.equal(['too_long'])
  })

  it('is what every operation gives to JSON of every type that it does not take, as the body and as each member', async () => {
    const values = fc.oneof(
      fc.constantFrom(null, true, false, 0, -1, 0.5, 1e308, '', 'x', [], [null], {}, { a: null }),
      fc.jsonValue({ maxDepth: 3 }),
    )
    for (const operation of withBody) {
      const path = pathOf(operation)
      const { example = {}, schema = {} } = operation.body ?? {}
      const bodies = fc.oneof(
        values,
        fc
          .tuple(fc.constantFrom(...Object.keys(schema.properties ?? {}), 'other'), values)
          .map(([name, value]) => ({ ...example, [name]: value })),
      )
      const check = async (body: unknown) => {
        const { status, text } = await send(operation, { path, body: JSON.stringify(body) })
        expect(status, `${operation.method} ${operation.path} ${JSON.stringify(body)}: ${text}`).to.be.within(200, 499)
      }
      for (const body of [null, true, 0, '', 'x', [], [{}], {}]) await check(body)
      for (const name of Object.keys(schema.properties ?? {})) {
        for (const value of [null, true, 0, -1, 0.5, '', 'x', [], [null], {}])
          await check({ ...example, [name]: value })
      }
      await fc.assert(fc.asyncProperty(bodies, check), { numRuns: 50 })
    }
  })
})
