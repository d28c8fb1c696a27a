/** POST /prices/batch and /bids/batch: against the listings of the same items, and what their bodies may hold. */
import { gzipSync } from 'node:zlib'
import { expect } from 'chai'
import { bidsBatchReply, pricesBatchReply } from '#schemas/api/batch.ts'
import { errorReply, type Violation } from '#schemas/api/error.ts'
import { type ApiScenario, openApiScenario } from '#test/fixtures/api-scenario.ts'
import { useServers } from '#test/harness/use-servers.ts'

interface Reply {
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: tests look into bodies of every shape
  body: any
}

const SIDES = [
  {
    path: '/prices',
    members: ['provider', 'lowest_ask', 'lowest_ask_decimal', 'quantity', 'timestamp', 'last_updated'],
  },
  {
    path: '/bids',
    members: ['provider', 'highest_bid', 'highest_bid_decimal', 'num_bids', 'timestamp', 'last_updated'],
  },
] as const

describe('batch lookups', () => {
  const platform = useServers()
  let scenario: ApiScenario
  before('a market behind the service', async () => {
    scenario = await openApiScenario(platform)
  })
  after('end of the market', () => scenario.close())

  async function post(path: string, body: unknown, init: RequestInit = {}): Promise<Reply> {
    const answer = await fetch(scenario.roles.baseUrl + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${scenario.keys.quant}`, 'content-type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body),
      ...init,
    })
    return { status: answer.status, headers: answer.headers, body: await answer.json() }
  }

  const expectError = ({ status, body }: Reply, wanted: [status: number, code: string]): void => {
    expect([status, body.code], JSON.stringify(body)).to.deep.equal(wanted)
    errorReply.parse(body)
  }

  const pick = (entry: Record<string, unknown>, members: readonly string[]) =>
    Object.fromEntries(members.map(member => [member, entry[member]]))

  for (const { path, members } of SIDES) {
    const side = path === '/prices' ? 'ask' : 'bid'
    const listed = () => [...new Set(scenario.rows.filter(row => row.side === side).map(row => row.itemId))]

    it(`POST ${path}/batch answers of each item what GET ${path} answers`, async () => {
      const { full, finish, unlisted, phases } = scenario.items
      const others = listed().filter(id => id !== finish.item_id)
      const ids = [...others.slice(0, 90), full.item_id, phases[0]?.item_id as number, unlisted.item_id, 999_999_999]
      const names = [finish.market_hash_name, full.market_hash_name, 'No Such Item']
      for (const parameters of [
        {},
        { currency: 'VEB' },
        { currency: 'BTC', providers: ['provider_02', 'provider_12'] },
      ]) {
        const askedAt = Date.now()
        const { status, body } = await post(`/v1${path}/batch`, {
          item_ids: ids,
          market_hash_names: names,
          ...parameters,
        })
        expect(status, JSON.stringify(body).slice(0, 400)).to.equal(200)
        const reply = (side === 'ask' ? pricesBatchReply : bidsBatchReply).parse(body)
        const query = new URLSearchParams({ currency: parameters.currency ?? 'USD' })
        for (const key of parameters.providers ?? []) query.append('providers', key)
        const single = async (selector: Record<string, string>) =>
          (await scenario.ask(`${path}?${query}&${new URLSearchParams(selector)}`)).body?.items ?? []

        const wanted = new Map<number, unknown[]>()
        const missing: number[] = []
        for (const id of new Set(ids)) {
          const entries = await single({ item_id: String(id) })
          if (entries.length === 0) missing.push(id)
          else wanted.set(id, entries)
        }
        const finishEntries = await single({ market_hash_name: finish.market_hash_name })
        if (finishEntries.length === 0) missing.push(finish.item_id)
        else wanted.set(finish.item_id, finishEntries)

        const quotesOf = (entries: unknown[]) => entries.map(entry => pick(entry as Record<string, unknown>, members))
        const expected = [...wanted].map(([id, entries]) => {
          const item = scenario.catalog.find(one => one.item_id === id)
          return {
            item_id: id,
            market_hash_name: item?.market_hash_name,
            phase: item?.phase,
            quotes: quotesOf(entries),
          }
        })
        expect(reply.items).to.deep.equal(expected)
        expect(reply.items_not_found).to.deep.equal(missing)
        expect(reply.names_not_found).to.deep.equal(['No Such Item'])
        const { generated_at, ...meta } = reply.meta
        expect(Date.parse(generated_at)).to.be.within(askedAt, Date.now())
        const all = scenario.providers.filter(one => side === 'ask' || one.features.has_buy_orders).map(one => one.key)
        expect(meta).to.deep.equal({
          currency: parameters.currency ?? 'USD',
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
      expectError(over, [422, 'VALIDATION_ERROR'])
      expect(over.body.detail).to.have.length(1)
      expect(over.body.detail[0]).to.deep.include({ type: 'too_long', loc: ['body'], ctx: { max_length: 100 } })
    })
  }

  it('null members and empty lists are as if left out', async () => {
    const { body } = await post('/prices/batch', {
      item_ids: [scenario.items.full.item_id],
      market_hash_names: null,
      providers: [],
      currency: null,
    })
    expect([body.meta.currency, body.items.length, body.meta.providers_queried.length]).to.deep.equal(['USD', 1, 41])
    expect((await post('/prices/batch', { market_hash_names: [], item_ids: [1] })).status).to.equal(200)
  })

  it('of members that come twice the last wins', async () => {
    const id = scenario.items.full.item_id
    const { body } = await post(
      '/prices/batch',
      `{"item_ids":["x"],"currency":"zzz","item_ids":[${id}],"currency":"EUR"}`,
    )
    expect([body.meta.currency, body.items[0].item_id]).to.deep.equal(['EUR', id])
  })

  it('all violations of a body are reported', async () => {
    const answer = await post('/bids/batch', {
      item_ids: [1, 'x', 1.5, 0, null],
      market_hash_names: ['', 'a\0b', '\ud800', 7],
      providers: ['provider_02', 'provider_01'],
      currency: 'XXX1',
      colour: 1,
      shape: null,
    })
    expectError(answer, [422, 'VALIDATION_ERROR'])
    const violations = (answer.body.detail as Violation[]).map(({ type, loc }) => `${type} ${loc.join('.')}`)
    expect(violations).to.have.members([
      'int_parsing body.item_ids.1',
      'int_parsing body.item_ids.2',
      'greater_than_equal body.item_ids.3',
      'int_parsing body.item_ids.4',
      'string_too_short body.market_hash_names.0',
      'value_error body.market_hash_names.1',
      'value_error body.market_hash_names.2',
      'string_type body.market_hash_names.3',
      'enum body.providers.1',
      'enum body.currency',
      'extra_forbidden body.colour',
      'extra_forbidden body.shape',
    ])
  })

  for (const body of [
    '{}',
    '{"item_ids":[]}',
    '{"item_ids":null,"market_hash_names":[]}',
    '[]',
    'null',
    '3',
    '"x"',
    '',
  ])
    it(`the body ${body || 'of no bytes'} is a violation`, async () => {
      expectError(await post('/prices/batch', body), [422, 'VALIDATION_ERROR'])
    })

  for (const body of ['{', '{"item_ids":[1]', '{"item_ids":[01]}', "{'item_ids':[1]}", '{"item_ids":[1]}x', '\u0000'])
    it(`the body ${JSON.stringify(body)} is no JSON`, async () => {
      expectError(await post('/prices/batch', body), [400, 'BAD_REQUEST'])
    })

  it('a body of another type, in another coding or too large is refused by its own status', async () => {
    const authorization = `Bearer ${scenario.keys.quant}`
    const send = (headers: Record<string, string>, body: RequestInit['body']) =>
      post('/prices/batch', '', { headers: { authorization, ...headers }, body })
    const body = `{"item_ids":[${scenario.items.full.item_id}]}`
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'application/jsonp',
      'multipart/form-data',
    ]) {
      expectError(await send({ 'content-type': type }, body), [415, 'UNSUPPORTED_MEDIA_TYPE'])
    }
    const json = { 'content-type': 'Application/JSON; charset=UTF-8' }
    expect((await send(json, body)).status).to.equal(200)
    expect((await send({ ...json, 'content-encoding': 'gzip' }, new Uint8Array(gzipSync(body)))).status).to.equal(200)
    expectError(await send({ ...json, 'content-encoding': 'gzip' }, body), [400, 'BAD_REQUEST'])
    expectError(await send({ ...json, 'content-encoding': 'zebra' }, body), [415, 'UNSUPPORTED_MEDIA_TYPE'])
    expectError(await send({ 'content-type': 'application/json; charset=latin1' }, body), [
      415,
      'UNSUPPORTED_MEDIA_TYPE',
    ])
    expectError(await send(json, body.padEnd(300_000)), [413, 'PAYLOAD_TOO_LARGE'])
    const bomb = new Uint8Array(gzipSync(body.padEnd(30_000_000)))
    expectError(await send({ ...json, 'content-encoding': 'gzip' }, bomb), [413, 'PAYLOAD_TOO_LARGE'])
  })
})
