/**
 * What every request meets before and around the routes: keys, tiers, methods, paths, headers, errors, the log.
 */
import { openSync, readFileSync, rmSync } from 'node:fs'
import { request as httpRequest } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { openLog } from '#infra/runtime/log.ts'
import { errorReply } from '#schemas/api/error.ts'
import { createAccountWithKey, newKeyText } from '#services/accounts/keys/commands.ts'
import { start as startApi } from '#services/api/main.ts'
import { type ApiScenario, openApiScenario } from '#test/fixtures/api-scenario.ts'
import type { Answer } from '#test/harness/scenario.ts'
import { startRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'

describe('every route of the API', () => {
  const platform = useServers()
  let scenario: ApiScenario
  before('a market behind the service', async () => {
    scenario = await openApiScenario(platform, 5)
  })
  after('end of the market', () => scenario.close())

  const expectError = (answer: Answer, status: number, code: string): void => {
    expect([answer.status, answer.body?.code], answer.text).to.deep.equal([status, code])
    errorReply.parse(answer.body)
    expect(answer.headers.get('content-type')).to.equal('application/json; charset=utf-8')
    expect(answer.headers.get('x-request-id')).to.be.a('string')
  }

  /** A key in a state of its own. */
  async function keyWhere(change: (ids: { account: string; key: string }) => [statement: string, values: unknown[]]) {
    const made = await createAccountWithKey(scenario.database, { tier: 'free' })
    const [statement, values] = change({ account: made.account_id, key: made.key_id })
    await scenario.database.rows(statement, values)
    return made.key
  }

  describe('keys', () => {
    const malformed = [
      '',
      'Bearer',
      'Bearer ',
      'Basic YWJj',
      'Bearer abc',
      'Bearer sk_live_root_short',
      `Bearer  ${newKeyText('root')}`,
      newKeyText('root'),
    ]
    for (const authorization of malformed)
      it(`"${authorization.slice(0, 24)}" is refused as none`, async () => {
        expectError(await scenario.ask('/fx', { as: null, headers: { authorization } }), 401, 'AUTH_INVALID_API_KEY')
      })

    it('is found whatever the case of the scheme', async () => {
      for (const scheme of ['Bearer', 'bearer', 'BEARER']) {
        const authorization = `${scheme} ${scenario.keys.free}`
        const answer = await scenario.ask('/fx', { as: null, headers: { authorization } })
        expect(answer.status, scheme).to.equal(200)
      }
    })

    it('that expires later is good', async () => {
      const later = await keyWhere(({ key }) => [
        `UPDATE api_keys SET expires_at = now() + interval '1 day' WHERE id = $1`,
        [key],
      ])
      expect((await scenario.ask('/fx', { as: later })).status).to.equal(200)
    })
  })

  describe('tiers', () => {
    it('limit the size of pages', async () => {
      expectError(await scenario.ask('/prices?limit=101', { as: 'free' }), 422, 'VALIDATION_ERROR')
      expect((await scenario.ask('/prices?limit=100', { as: 'free' })).status).to.equal(200)
      for (const as of ['starter', 'pro', 'quant'] as const) {
        expect((await scenario.ask('/prices?limit=1000', { as })).status).to.equal(200)
        expectError(await scenario.ask('/prices?limit=1001', { as }), 422, 'VALIDATION_ERROR')
      }
      expectError(await scenario.ask('/sales?limit=101', { as: 'pro' }), 422, 'VALIDATION_ERROR')
    })

    it('limit the intervals and windows of candles', async () => {
      const path = (parameters: string) => `/prices/candles?item_id=${scenario.items.full.item_id}&${parameters}`
      for (const as of ['free', 'starter'] as const) {
        for (const parameters of [
          'interval=1h',
          'interval=5m',
          'fill=true',
          'start=2026-01-01',
          'end=2026-01-01',
          'lookback=48h',
        ]) {
          expectError(await scenario.ask(path(parameters), { as }), 403, 'FORBIDDEN_TIER')
        }
        expectError(await scenario.ask(path('lookback=31d'), { as }), 422, 'VALIDATION_ERROR')
        expectError(await scenario.ask(path('interval=2h'), { as }), 422, 'VALIDATION_ERROR')
        for (const parameters of ['', 'fill=false', 'lookback=30', 'lookback=7d&interval=1d']) {
          expect((await scenario.ask(path(parameters), { as })).status, parameters).to.equal(200)
        }
      }
    })
  })

  it('checks are made in order: key, account, tier, parameters', async () => {
    const disabled = await keyWhere(({ account }) => [
      'UPDATE accounts SET disabled_at = now() WHERE id = $1',
      [account],
    ])
    const bad = '/sales?limit=0&cursor=x&providers=nobody'
    expectError(await scenario.ask(bad, { as: null }), 401, 'AUTH_INVALID_API_KEY')
    expectError(await scenario.ask(bad, { as: disabled }), 403, 'AUTH_ACCOUNT_DISABLED')
    expectError(await scenario.ask(bad, { as: 'free' }), 403, 'FORBIDDEN_TIER')
    expectError(await scenario.ask(bad, { as: 'pro' }), 422, 'VALIDATION_ERROR')
    const candles = '/prices/candles?interval=1h&limit=x&lookback=abc'
    expectError(await scenario.ask(candles, { as: 'free' }), 403, 'FORBIDDEN_TIER')
    expectError(await scenario.ask(candles, { as: 'pro' }), 422, 'VALIDATION_ERROR')
  })

  describe('paths and methods', () => {
    for (const path of [
      '/',
      '/v1',
      '/v1/',
      '/nothing',
      '/v1/nothing',
      '/v1/v1/prices',
      '/Prices',
      '/prices/nothing',
      '/v1prices',
      '/prices%2Fcandles',
      '/r',
      '/r/provider_01',
    ])
      it(`${path} is answered by 404`, async () => expectError(await scenario.ask(path), 404, 'NOT_FOUND'))

    it('one slash at the end does no harm', async () => {
      expect((await scenario.ask('/v1/fx/')).status).to.equal(200)
    })

    for (const path of ['/prices%', '/%zz', '/v1/fx%ff', '/fx?a=%', '/prices?market_hash_name=%E0%A4%A', '/r/%c3%28/1'])
      it(`${path}, which cannot be decoded, is a bad request`, async () =>
        expectError(await rawGet(path), 400, 'BAD_REQUEST'))

    it('parameters that no page names are ignored', async () => {
      const plain = await scenario.ask('/v1/fx')
      expect((await scenario.ask('/v1/fx?token=x&token=y&__proto__=1&limit=-5')).text).to.equal(plain.text)
      expect((await scenario.ask('/prices?limit=3&colour=red')).status).to.equal(200)
    })
  })

  /** fetch would repair some of these paths. */
  const rawGet = (path: string): Promise<Answer> =>
    new Promise((resolve, reject) => {
      const { hostname, port } = new URL(scenario.roles.baseUrl)
      const options = { hostname, port, path, headers: { authorization: `Bearer ${scenario.keys.quant}` } }
      httpRequest(options, response => {
        let text = ''
        response.setEncoding('utf8').on('data', chunk => {
          text += chunk
        })
        response.on('end', () => {
          const headers = new Headers(response.headers as Record<string, string>)
          resolve({ status: response.statusCode ?? 0, headers, text, body: JSON.parse(text) })
        })
      })
        .on('error', reject)
        .end()
    })

  describe('every answer', () => {
    it('carries a request id: the own one of the client where it is harmless, else a new one', async () => {
      const ask = (id: string) => scenario.ask('/fx', { headers: { 'x-request-id': id } })
      expect((await ask('client-7.a_B')).headers.get('x-request-id')).to.equal('client-7.a_B')
      for (const id of ['x'.repeat(65), 'a b', '<script>', 'a;b', '{"a":1}']) {
        expect((await ask(id)).headers.get('x-request-id')).to.match(/^[0-9a-f-]{36}$/)
      }
      const ids = await Promise.all(
        ['/fx', '/fx', '/nothing', '/prices?limit=x', '/r/provider_01/1'].map(
          async path => (await scenario.ask(path)).headers.get('x-request-id') as string,
        ),
      )
      expect(new Set(ids).size).to.equal(5)
    })

    it('reveals nothing of what made it and may be neither sniffed nor framed', async () => {
      for (const path of ['/fx', '/nothing', '/prices?limit=x']) {
        const { headers } = await scenario.ask(path)
        expect(headers.has('x-powered-by')).to.equal(false)
        expect(headers.has('etag')).to.equal(false)
        expect(headers.get('x-content-type-options')).to.equal('nosniff')
        expect(headers.get('content-security-policy')).to.include("frame-ancestors 'none'")
        expect(headers.get('cache-control')).to.include('no-store')
      }
    })
  })

  it('the log has a line for each answer, and no key, query or header in any', async () => {
    const file = join(tmpdir(), `marketlog-api-log-${process.pid}-${Date.now()}.jsonl`)
    const log = openLog({ level: 'trace', name: 'test', descriptor: openSync(file, 'a') })
    const roles = await startRoles([startApi], { config: platform.config, log })
    const answers: Response[] = []
    for (const path of [
      '/v1/prices?limit=2&market_hash_name=secret-name',
      '/fx',
      '/nothing?token=secret-token',
      '/sales?limit=x',
      '/r/provider_01/1',
    ]) {
      const headers = { authorization: `Bearer ${scenario.keys.quant}`, cookie: 'secret-cookie' }
      const answer = await fetch(roles.baseUrl + path, { headers, redirect: 'manual' })
      await answer.body?.cancel()
      answers.push(answer)
    }
    await roles.stop()
    const text = readFileSync(file, 'utf8')
    rmSync(file)
    const lines = text
      .trim()
      .split('\n')
      .map(line => JSON.parse(line))
      .filter(line => line.msg === 'answered')
    expect(lines.map(({ request_id, status }) => [request_id, status])).to.deep.equal(
      answers.map(answer => [answer.headers.get('x-request-id'), answer.status]),
    )
    expect(lines.map(line => line.route)).to.deep.equal(['/prices', '/fx', 'none', '/sales', '/r/:provider/:item_id'])
    for (const secret of ['secret-', ...Object.values(scenario.keys)]) expect(text).not.to.include(secret)
  })
})
