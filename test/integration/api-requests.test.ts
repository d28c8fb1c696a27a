import { openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { openLog } from '#infra/runtime/log.ts'
import { errorReply } from '#schemas/api/error.ts'
import { newKeyText } from '#services/accounts/keys/commands.ts'
import { start as startApi } from '#services/api/main.ts'
import { type ApiScenario, ELSEWHERE, type ModelRow, openApiScenario, uriOf } from '#test/fixtures/api-scenario.ts'
import type { Answer } from '#test/harness/scenario.ts'
import { startRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'

describe('requests to the API', () => {
  const platform = useServers()
  let scenario: ApiScenario
  before('a market behind the service', async () => {
    scenario = await openApiScenario(platform)
  })
  after('end of the market', () => scenario.close())

  const expectError = (answer: Answer, status: number, code: string): void => {
    expect([answer.status, answer.body?.code], answer.text).to.deep.equal([status, code])
    errorReply.parse(answer.body)
    expect(answer.headers.get('content-type')).to.equal('application/json; charset=utf-8')
    expect(answer.headers.get('x-request-id')).to.be.a('string')
  }

  describe('keys', () => {
    const [unknown, other] = [newKeyText('root'), newKeyText('root')]
    const malformed = ['Bearer', 'Bearer ', 'Basic YWJj', 'Bearer abc', `Bearer  ${unknown}`, other]
    it('are refused as none where the header holds no bearer token of their form', async () => {
      for (const authorization of malformed) {
        expectError(await scenario.ask('/fx', { as: null, headers: { authorization } }), 401, 'AUTH_INVALID_API_KEY')
      }
    })

    it('is found whatever the case of the scheme', async () => {
      for (const scheme of ['Bearer', 'bearer', 'BEARER']) {
        const authorization = `${scheme} ${scenario.keys.free}`
        const answer = await scenario.ask('/fx', { as: null, headers: { authorization } })
        expect(answer.status, scheme).to.equal(200)
      }
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

    it('limit the intervals of candles, which is checked before the other parameters', async () => {
      const candles = '/prices/candles?interval=1h&limit=x&lookback=abc'
      expectError(await scenario.ask(candles, { as: 'free' }), 403, 'FORBIDDEN_TIER')
      expectError(await scenario.ask(candles, { as: 'pro' }), 422, 'VALIDATION_ERROR')
    })
  })

  describe('paths', () => {
    it('that are none are answered by 404', async () => {
      const below = ['/nothing', '/v1/nothing', '/v1/v1/prices', '/prices/nothing', '/prices%2Fcandles']
      for (const path of ['/v1', ...below, '/Prices', '/v1prices', '/r', '/r/provider_01', '/assets', '/assets/x']) {
        expectError(await scenario.ask(path), 404, 'NOT_FOUND')
      }
    })

    it('one slash at the end does no harm', async () => {
      expect((await scenario.ask('/v1/fx/')).status).to.equal(200)
    })
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

  describe('batch lookups', () => {
    const post = (path: string, body: unknown, headers: Record<string, string> = {}) =>
      scenario.ask(path, { method: 'POST', body, headers })
    const json = { 'content-type': 'application/json' }

    for (const [side, path, members] of [
      ['ask', '/prices', ['lowest_ask', 'lowest_ask_decimal', 'quantity']],
      ['bid', '/bids', ['highest_bid', 'highest_bid_decimal', 'num_bids']],
    ] as const) {
      it(`POST ${path}/batch answers of each item what GET ${path} answers`, async () => {
        const { full, finish, unlisted, phases } = scenario.items
        const listed = new Set(scenario.rows.filter(row => row.side === side).map(row => row.itemId))
        const others = [...listed].filter(id => id !== finish.item_id).slice(0, 90)
        const ids = [...others, full.item_id, phases[0]?.item_id as number, unlisted.item_id, 999_999_999]
        const names = [finish.market_hash_name, full.market_hash_name, 'No Such Item']
        for (const parameters of [
          {},
          { currency: 'VEB' },
          { currency: 'BTC', providers: ['provider_02', 'provider_12'] },
        ]) {
          const askedAt = Date.now()
          const asked = { item_ids: ids, market_hash_names: names, ...parameters }
          const { status, body, text } = await post(`/v1${path}/batch`, asked)
          expect(status, text.slice(0, 400)).to.equal(200)
          const currency = parameters.currency ?? 'USD'
          const query = new URLSearchParams({ currency })
          for (const key of parameters.providers ?? []) query.append('providers', key)
          const expected: object[] = []
          const missing: number[] = []
          for (const id of new Set([...ids, finish.item_id])) {
            const item = scenario.catalog.find(one => one.item_id === id)
            // By name a finish is all of its phases.
            const byName = `market_hash_name=${encodeURIComponent(finish.market_hash_name)}`
            const answer = await scenario.ask(`${path}?${query}&${id === finish.item_id ? byName : `item_id=${id}`}`)
            const quotes = (answer.body.items ?? []).map((entry: Record<string, unknown>) =>
              Object.fromEntries(
                ['provider', ...members, 'timestamp', 'last_updated'].map(member => [member, entry[member]]),
              ),
            )
            if (quotes.length === 0) missing.push(id)
            else expected.push({ item_id: id, market_hash_name: item?.market_hash_name, phase: item?.phase, quotes })
          }
          expect(body.items).to.deep.equal(expected)
          expect([body.items_not_found, body.names_not_found]).to.deep.equal([missing, ['No Such Item']])
          const { generated_at, ...meta } = body.meta
          expect(Date.parse(generated_at)).to.be.within(askedAt, Date.now())
          const all = scenario.providers
            .filter(one => side === 'ask' || one.features.has_buy_orders)
            .map(one => one.key)
          expect(meta).to.deep.equal({
            currency,
            requested_item_count: ids.length + names.length,
            found_item_count: expected.length,
            providers_queried: parameters.providers ?? all.sort(),
          })
        }
      })

      it(`POST ${path}/batch answers a hundred items and refuses one more`, async () => {
        const ids = scenario.catalog.slice(0, 101).map(item => item.item_id)
        expect((await post(`${path}/batch`, { item_ids: ids.slice(1) })).status).to.equal(200)
        const over = await post(`${path}/batch`, { item_ids: ids.slice(1), market_hash_names: ['x'] })
        expectError(over, 422, 'VALIDATION_ERROR')
        expect(over.body.detail).to.have.length(1)
        expect(over.body.detail[0]).to.deep.include({ type: 'too_long', loc: ['body'], ctx: { max_length: 100 } })
      })
    }

    it('null members and empty lists are as if left out', async () => {
      const item_ids = [scenario.items.full.item_id]
      const more = { market_hash_names: null, providers: [], currency: null }
      const { body } = await post('/prices/batch', { item_ids, ...more })
      expect([body.meta.currency, body.items.length, body.meta.providers_queried.length]).to.deep.equal(['USD', 1, 41])
      expect((await post('/prices/batch', { market_hash_names: [], item_ids: [1] })).status).to.equal(200)
    })

    it('of members that come twice the last wins', async () => {
      const id = scenario.items.full.item_id
      const twice = `{"item_ids":["x"],"currency":"zzz","item_ids":[${id}],"currency":"EUR"}`
      const { body } = await post('/prices/batch', twice, json)
      expect([body.meta.currency, body.items[0].item_id]).to.deep.equal(['EUR', id])
    })

    it('need an item', async () => {
      const empty = ['{}', '{"item_ids":[]}', '{"item_ids":null,"market_hash_names":[]}']
      for (const body of [...empty, '[]', 'null', '3', '"x"', ''])
        expectError(await post('/prices/batch', body, json), 422, 'VALIDATION_ERROR')
    })

    it('refuse a body of another type, in a coding that it is not in, or too large, each by its own status', async () => {
      const body = `{"item_ids":[${scenario.items.full.item_id}]}`
      const types = ['text/plain', 'application/x-www-form-urlencoded', 'application/jsonp', 'multipart/form-data']
      for (const type of types)
        expectError(await post('/prices/batch', body, { 'content-type': type }), 415, 'UNSUPPORTED_MEDIA_TYPE')
      const shouted = { 'content-type': 'Application/JSON; charset=UTF-8' }
      expect((await post('/prices/batch', body, shouted)).status).to.equal(200)
      const coded = (coding: string) => post('/prices/batch', body, { ...json, 'content-encoding': coding })
      expectError(await coded('gzip'), 400, 'BAD_REQUEST')
      expectError(await coded('zebra'), 415, 'UNSUPPORTED_MEDIA_TYPE')
      expectError(await post('/prices/batch', body.padEnd(300_000), json), 413, 'PAYLOAD_TOO_LARGE')
    })
  })

  describe('links of prices', () => {
    const listed = (fits: (row: ModelRow) => boolean): ModelRow =>
      scenario.rows.find(row => row.side === 'ask' && fits(row)) ?? expect.fail('the market has no such row')
    const anyRow = (): ModelRow => listed(row => row.itemId === scenario.items.full.item_id)
    const open = ({ provider, itemId }: ModelRow) => scenario.ask(`/r/${provider}/${itemId}`, { as: null })

    it("lead to the row's own URL, else to the marketplace's page of the item, without a key", async () => {
      const own = listed(({ url }) => url !== null && !url.includes(ELSEWHERE))
      const template = listed(row => row.url === null && row.itemId === scenario.items.full.item_id)
      const first = await scenario.ask(`/v1/r/${own.provider}/${own.itemId}`, { as: null })
      expect([first.status, first.headers.get('location')]).to.deep.equal([302, uriOf(own.url as string)])
      const second = await open(template)
      expect(second.status).to.equal(302)
      expect(second.headers.get('location')).to.match(/^https:\/\/[^/]+\/.*AK-47/)
    })

    it('lead where `url` leads, those of a finish to the phase whose price they show', async () => {
      const { finish, full } = scenario.items
      for (const chosen of [
        `market_hash_name=${encodeURIComponent(finish.market_hash_name)}`,
        `item_id=${full.item_id}`,
      ]) {
        const { body } = await scenario.ask(`/prices?${chosen}`)
        const entries: { link: string; url?: string }[] = body.items
        expect(entries).not.to.deep.equal([])
        for (const { link, url } of entries) {
          const { status, headers } = await fetch(link, { redirect: 'manual' })
          expect([status, headers.get('location')], link).to.deep.equal(url === undefined ? [404, null] : [302, url])
        }
      }
    })

    it('never leave the web, whatever a provider sent', async () => {
      const row = anyRow()
      const urls = [
        'javascript:alert(1)',
        'file:///etc/passwd',
        'https://',
        '//evil.example',
        'http://a\r\nSet-Cookie: x=1',
      ]
      for (const url of urls) {
        await scenario.write({ rows: [{ ...row, url }] })
        const { status, headers } = await open(row)
        expect(status, url).to.equal(302)
        expect(headers.get('location'), url).to.match(/^https:\/\/[a-z0-9.-]+\/[^\r\n]*$/)
        expect(headers.get('location'), url).not.to.include('evil')
        expect(headers.has('set-cookie')).to.equal(false)
      }
      await scenario.write({ rows: [row] })
    })

    it('are a 404, and entries have no `url`, where an offer is at no host of its provider', async () => {
      const row = anyRow()
      const [host] = scenario.providers.find(({ key }) => key === row.provider)?.hosts ?? []
      const foreign = [
        ELSEWHERE,
        `${host}.${ELSEWHERE}`,
        `${host}@${ELSEWHERE}`,
        `${ELSEWHERE}\\@${host}`,
        `${host}:8443`,
      ]
      for (const authority of foreign) {
        await scenario.write({ rows: [{ ...row, url: `https://${authority}/` }] })
        const { status, body } = await open(row)
        expect([status, body.code], authority).to.deep.equal([404, 'NOT_FOUND'])
        const prices = await scenario.ask(`/prices?item_id=${row.itemId}&providers=${row.provider}`)
        expect(prices.body.items[0], authority).not.to.have.property('url')
      }
      await scenario.write({ rows: [row] })
    })

    it('are a 404 for unknown providers and items', async () => {
      const codeOf = async (path: string) => {
        const { status, body } = await scenario.ask(path, { as: null })
        return [status, body.code]
      }
      expect(await codeOf('/r/nobody/1')).to.deep.equal([404, 'NOT_FOUND'])
      for (const id of ['2000000000', 'x', '-1', '1.5', '99999999999999999999']) {
        expect(await codeOf(`/r/provider_01/${id}`), id).to.deep.equal([404, 'ITEM_NOT_FOUND'])
      }
    })
  })
})
