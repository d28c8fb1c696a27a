/**
 * The API's description against the specification's table, against the routes, and against what each tier gets.
 */
import { readFileSync } from 'node:fs'
import { expect } from 'chai'
import { TIERS } from '#infra/config/tiers.ts'
import type { Guard } from '#infra/http/guard.ts'
import { openApiDocument } from '#infra/http/openapi.ts'
import { routerOf } from '#infra/http/serve-routes.ts'
import { ERROR_STATUS } from '#schemas/api/error.ts'
import { fxReply } from '#schemas/api/providers.ts'
import { feedRoutesAlone, operationsDescribed, routesAlone } from '#test/fixtures/api-routes.ts'
import type { ApiScenario } from '#test/fixtures/api-scenario.ts'
import { openApiScenario } from '#test/fixtures/api-scenario.ts'
import type { Description } from '#test/harness/described-answers.ts'
import { openDescribedAnswers, resolved } from '#test/harness/described-answers.ts'
import { useServers } from '#test/harness/use-servers.ts'

const TABLE = new URL('../fixtures/operations.csv', import.meta.url)

/** Groups of the specification's table that are served; each is described whole. */
const GROUPS = new Set([
  'prices',
  'bids',
  'sales',
  'catalog',
  'account',
  'analytics',
  'alerts',
  'webhooks',
  'portfolio',
  'inventory',
  'feeds',
])

/** Operations beside the table's. */
const BEYOND = [
  'GET /v1/r/{provider}/{item_id}',
  'GET /v1/market/movers',
  'GET /v1/portfolio/{id}/performance',
  'POST /v1/account/webhooks/{id}/test',
  'POST /v1/account/webhooks/deliveries/{id}/redeliver',
  'GET /v1/feed/replay/prices',
  'GET /v1/account/login',
  'GET /v1/account/callback',
  'POST /v1/account/session',
  'POST /v1/account/session/refresh',
  'DELETE /v1/account/session',
  'POST /v1/account/session/revoke-all',
  'GET /v1/.well-known/jwks.json',
  'GET /v1/account',
  'GET /v1/account/export',
  'DELETE /v1/account',
  'POST /v1/account/email',
  'GET /v1/account/email/verify',
  'POST /v1/account/email/verify',
  'POST /v1/account/platform',
  'GET /v1/account/platform/callback',
  'DELETE /v1/account/platform',
]

/** An answer of a route that is missing, or closed to its caller. */
const isClosed = ([status, code]: [number, string?]): boolean =>
  [401, 405].includes(status) || code === 'NOT_FOUND' || code === 'FORBIDDEN_TIER'

interface Row {
  method: string
  path: string
  tiers: string[]
  credential: string
  countsInMonth: boolean
  group: string
}

/** The operations of the specification's table that this document describes. */
const ROWS: Row[] = readFileSync(TABLE, 'utf8')
  .trim()
  .split('\n')
  .slice(1)
  .map(line => {
    const [method = '', path = '', tiers = '', credential = '', counts, group = ''] = line.split(',')
    return { method, path, tiers: tiers.split('|'), credential, countsInMonth: counts === 'yes', group }
  })
  .filter(({ group }) => GROUPS.has(group))

const OPERATIONS = operationsDescribed()

// biome-ignore lint/suspicious/noExplicitAny: a document of any shape is looked into
const document: any = openApiDocument(OPERATIONS, { baseUrl: 'https://api.example.com' })
const operationAt = (method: string, path: string) =>
  document.paths[`/v1${path.replaceAll(/:(\w+)/g, '{$1}')}`]?.[method.toLowerCase()]
const described = (): string[] =>
  Object.entries(document.paths as Record<string, object>).flatMap(([path, methods]) =>
    Object.keys(methods).map(method => `${method.toUpperCase()} ${path}`),
  )

describe('the description of the API', () => {
  for (const { method, path, tiers, countsInMonth } of ROWS)
    it(`documents all of ${method} ${path}`, () => {
      const operation = operationAt(method, path)
      expect(operation, 'is described').to.be.an('object')
      expect(operation['x-tiers']).to.deep.equal(tiers)
      expect(operation.summary).to.match(/^[A-Z].{10,}/)
      expect(operation.description).to.include(`Tiers: ${tiers.join(', ')}.`)
      for (const parameter of operation.parameters) {
        expect(parameter.description, parameter.name).to.match(/\w{3}/)
        expect(parameter, parameter.name).to.have.property('example')
        expect(parameter.schema, parameter.name).to.have.property('type')
      }
      expect(operation.description.includes('Counts against the monthly quota.')).to.equal(countsInMonth)
      const success = operation.responses[200] ?? operation.responses[201] ?? operation.responses[204]
      const limits = ['Limit', 'Remaining', 'Reset', 'Tier'].map(name => `X-RateLimit-${name}`)
      expect(success.headers).to.include.keys(...limits, 'RateLimit-Policy', 'RateLimit')
      for (const { example } of Object.values<{ example: unknown }>(success.content ?? {})) {
        expect(example, 'an example').to.be.ok
      }
      for (const status of [400, 401, 403, 429, 500, 503]) expect(operation.responses).to.have.property(String(status))
      expect(resolved(document, operation.responses[429]).headers).to.include.keys('Retry-After', 'RateLimit')
    })

  it('lists the operations of the table, those beside it, and no other', () => {
    const wanted = ROWS.map(({ method, path }) => `${method} /v1${path.replaceAll(/:(\w+)/g, '{$1}')}`)
    expect(described().sort()).to.deep.equal([...wanted, ...BEYOND].sort())
  })

  it('lists every route of the API and of the feeds, and they have every one that it lists', () => {
    const methods = new Set(['get', 'post', 'put', 'patch', 'delete'])
    const routes = routerOf(routesAlone(), {} as Guard).stack.flatMap(({ route }) =>
      (route?.stack ?? [])
        .filter(({ method }) => methods.has(method))
        .map(({ method }) => `${method.toUpperCase()} /v1${String(route?.path).replaceAll(/:(\w+)/g, '{$1}')}`),
    )
    routes.push(...feedRoutesAlone().map(({ method, path }) => `${method.toUpperCase()} /v1${path}`))
    expect([...new Set(routes)].sort()).to.deep.equal(described().sort())
  })

  it('holds an example for every reply that fits its schema, and knows each error by its status', () => {
    const check = openDescribedAnswers(document as Description)
    for (const { method, path, reply } of OPERATIONS) {
      if (reply.name === undefined) continue
      expect(reply.example, path).not.to.equal(undefined)
      const type = reply.type ?? (reply.isStream ? 'application/x-ndjson' : 'application/json')
      check({ method: method.toUpperCase(), path, status: reply.status, type, body: reply.example })
    }
    for (const methods of Object.values<Record<string, { responses: object }>>(document.paths)) {
      for (const { responses } of Object.values(methods)) {
        // biome-ignore lint/suspicious/noExplicitAny: as above
        for (const [status, response] of Object.entries<any>(responses)) {
          const { content } = resolved(document, response)
          for (const code of content?.['application/json']?.schema?.properties?.code?.enum ?? []) {
            expect(ERROR_STATUS[code as keyof typeof ERROR_STATUS], code).to.equal(Number(status))
          }
        }
      }
    }
  })

  it('an answer that deviates is seen', () => {
    const check = openDescribedAnswers(document as Description)
    const answer = { method: 'GET', path: '/fx?a=1', status: 200, type: 'application/json; charset=utf-8' }
    const { example } = fxReply.meta() as { example: object }
    check({ ...answer, body: example })
    expect(() => check({ ...answer, body: { timestamp: 'x', rates: {} } })).to.throw('format')
    expect(() => check({ ...answer, body: { ...example, more: 1 } })).to.throw('additional')
    expect(() => check({ ...answer, status: 418, body: {} })).to.throw('not described')
    expect(() => check({ ...answer, type: 'text/html', body: '' })).to.throw('text/html')
  })
})

describe('the description of the API, served', () => {
  const platform = useServers()
  let scenario: ApiScenario
  before('a market behind the service', async () => {
    scenario = await openApiScenario(platform, 5)
  })
  after('end of the market', () => scenario.close())

  for (const root of ['', '/v1'])
    it(`is served as ${root}/openapi.json, ${root}/docs and ${root}/llms.txt, without a key`, async () => {
      const { status, body, headers } = await scenario.ask(`${root}/openapi.json`, { as: null })
      expect([status, body.openapi, body.info.version]).to.deep.equal([200, '3.1.0', '1.0.0'])
      expect(body.servers).to.deep.equal([{ url: scenario.roles.baseUrl }])
      expect(headers.get('access-control-allow-origin')).to.equal('*')
      const page = await scenario.ask(`${root}/docs`, { as: null })
      expect(page.status).to.equal(200)
      expect(page.headers.get('content-type')).to.match(/^text\/html/)
      expect(page.text).to.include(`${root}/openapi.json`)
      expect(page.text.match(/(src|href)="(?!\/)[^"]*"/g), 'what the page loads from elsewhere').to.equal(null)
      const policy = page.headers.get('content-security-policy') ?? ''
      expect(policy).to.include("default-src 'none'")
      expect(policy).not.to.match(/https?:|\*/)
      const script = /src="([^"]+)"/.exec(page.text)?.[1] as string
      const loaded = await scenario.ask(script, { as: null })
      expect([loaded.status, loaded.headers.get('content-type')]).to.deep.equal([200, 'text/javascript; charset=utf-8'])
      expect(loaded.text).to.include('createApiReference')
      const plain = await scenario.ask(script, { as: null, headers: { 'accept-encoding': 'identity' } })
      expect(plain.headers.has('content-encoding')).to.equal(false)
      expect(plain.text).to.equal(loaded.text)
      const prose = await scenario.ask(`${root}/llms.txt`, { as: null })
      expect(prose.headers.get('content-type')).to.equal('text/plain; charset=utf-8')
      for (const { method, path } of ROWS) expect(prose.text).to.include(`${method} /v1${path}`)
    })

  // What takes no child key is swept in account-sweep.test.ts: a reissue ends the keys of this market.
  // The feeds' role answers in feed-openapi.test.ts.
  const asked = ROWS.filter(({ credential, group }) => credential === 'key' && group !== 'feeds')
  for (const { method, path, tiers } of asked)
    for (const tier of TIERS) {
      const isAllowed = tiers.includes(tier)
      it(`${method} ${path} is ${isAllowed ? 'open to' : 'closed to'} ${tier}`, async () => {
        for (const root of ['', '/v1']) {
          const filled = path.replaceAll(/:\w+/g, '00000000-0000-4000-8000-000000000000')
          const { status, body } = await scenario.ask(root + filled, { as: tier, method })
          if (isAllowed) expect([status, body?.code]).not.to.satisfy(isClosed)
          else expect([status, body.code]).to.deep.equal([403, 'FORBIDDEN_TIER'])
        }
      })
    }
})
