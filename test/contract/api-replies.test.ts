/**
 * Every answer of the query service fits the schema that will describe it, to the last member.
 */
import { expect } from 'chai'
import { z } from 'zod'
import { candlesQuery, candlesReply } from '#schemas/api/candles.ts'
import { imagesQuery, imagesReply, itemsMetadataReply, itemsQuery, itemsReply } from '#schemas/api/catalog.ts'
import { errorReply } from '#schemas/api/error.ts'
import { historyQuery, historyReply } from '#schemas/api/history.ts'
import { bidsReply, listingQuery, pricesReply } from '#schemas/api/listing.ts'
import { fxReply, providersQuery, providersReply } from '#schemas/api/providers.ts'
import { salesQuery, salesReply } from '#schemas/api/sales.ts'
import { healthKey, type StoredHealth } from '#streams/provider-health/table.ts'
import { makeChanges, makeSales, storeChanges, storeSales } from '#test/fixtures/api-records.ts'
import { type ApiScenario, openApiScenario } from '#test/fixtures/api-scenario.ts'
import { useClickhouse } from '#test/fixtures/use-clickhouse.ts'
import { useServers } from '#test/harness/use-servers.ts'

const isCurrency = () => true
const providers = ['provider_01', 'provider_02']

/** Each route: its schemas, and requests whose answers hold something. */
const ROUTES: {
  path: string
  query?: z.ZodType
  reply: z.ZodType
  requests: string[]
  holds: (body: never) => unknown[]
}[] = [
  {
    path: '/prices',
    query: listingQuery({ providers, isCurrency, pageMax: 100 }),
    reply: pricesReply,
    requests: [
      '',
      '?item_id=FULL',
      '?item_id=FULL&currency=VEB',
      '?market_hash_name=FINISH&providers=COMPLETE',
      '?phase=Ruby&limit=3',
      '?offset=20&limit=7',
    ],
    holds: (body: z.infer<typeof pricesReply>) => body.items,
  },
  {
    path: '/bids',
    query: listingQuery({ providers, isCurrency, pageMax: 1000 }),
    reply: bidsReply,
    requests: ['', '?item_id=FULL&currency=BTC', '?market_hash_name=FINISH'],
    holds: (body: z.infer<typeof bidsReply>) => body.items,
  },
  {
    path: '/prices/candles',
    query: candlesQuery({ isCurrency, lookbackDaysMax: 30 }),
    reply: candlesReply,
    requests: [
      '?item_id=FULL',
      '?item_id=FULL&interval=1h&fill=true&lookback=5d',
      '?market_hash_name=FINISH&interval=5m',
    ],
    holds: (body: z.infer<typeof candlesReply>) => body.data,
  },
  {
    path: '/prices/history',
    query: historyQuery({ providers, isCurrency }),
    reply: historyReply,
    requests: ['?item_id=FULL&limit=3', '?market_hash_name=FINISH&limit=1000'],
    holds: (body: z.infer<typeof historyReply>) => body.items,
  },
  {
    path: '/sales',
    query: salesQuery({ providers, isCurrency, pageMax: 100 }),
    reply: salesReply,
    requests: ['', '?item_id=FULL&limit=3', '?min_float=0.1&paint_seed=3'],
    holds: (body: z.infer<typeof salesReply>) => body.items,
  },
  {
    path: '/items',
    query: itemsQuery,
    reply: itemsReply,
    requests: ['', '?q=knife&limit=5&offset=3', '?item_id=FULL'],
    holds: (body: z.infer<typeof itemsReply>) => body.items,
  },
  { path: '/items/metadata', reply: itemsMetadataReply, requests: [''], holds: (body: object) => Object.keys(body) },
  {
    path: '/images',
    query: imagesQuery,
    reply: imagesReply,
    requests: ['', '?format=webp'],
    holds: (body: object) => Object.keys(body),
  },
  {
    path: '/providers',
    query: providersQuery(providers),
    reply: providersReply,
    requests: ['', '?provider=provider_02'],
    holds: (body: object) => Object.keys(body),
  },
  { path: '/fx', reply: fxReply, requests: [''], holds: (body: z.infer<typeof fxReply>) => Object.keys(body.rates) },
]

describe('answers of the query service', () => {
  const platform = useServers()
  const clickhouse = useClickhouse(platform)
  let scenario: ApiScenario

  before('everything that the service reads', async () => {
    scenario = await openApiScenario(platform)
    const { items, random } = scenario
    const scope = {
      itemIds: [items.full.item_id, items.finish.item_id],
      providers: ['provider_02', 'provider_07'],
      now: Date.now(),
      days: 4,
    }
    await storeChanges(clickhouse, makeChanges(random, { ...scope, count: 400 }))
    await storeSales(clickhouse, makeSales(random, { ...scope, count: 200 }))
    const health: StoredHealth = {
      last_completed_at: Date.now(),
      last_checked_at: Date.now(),
      consecutive_failures: 0,
      total_offers: 12,
      unique_items: 7,
      total_value: 5_000,
      total_value_usd: 700,
      currency: 'CNY',
      quarantined_reason: null,
      sides: {},
    }
    await scenario.redis.hset(healthKey(platform.namespace), 'provider_02', JSON.stringify(health))
  })
  after('end of the market', () => scenario.close())

  const filled = (request: string): string =>
    request
      .replace('FULL', String(scenario.items.full.item_id))
      .replace('FINISH', encodeURIComponent(scenario.items.finish.market_hash_name))
      .replace('COMPLETE', scenario.complete)

  for (const { path, reply, requests, holds } of ROUTES)
    for (const request of requests)
      it(`GET ${path}${request}`, async () => {
        const { status, text, body } = await scenario.ask(`/v1${path}${filled(request)}`)
        expect(status, text.slice(0, 500)).to.equal(200)
        reply.parse(body)
        expect(holds(body as never)).not.to.have.length(0)
      })

  it('a provider is up by the health that was stored', async () => {
    const { body } = await scenario.ask('/v1/providers')
    const records = Object.values(providersReply.parse(body))
    expect(records.map(({ key }) => key)).to.deep.equal(scenario.providers.map(({ key }) => key))
    expect(records.filter(({ health }) => health.status === 'up').map(({ key }) => key)).to.deep.equal(['provider_02'])
  })

  it('rates keep the digits of their source', async () => {
    const { text } = await scenario.ask('/v1/fx')
    for (const [code, rate] of Object.entries(scenario.rates)) expect(text).to.include(`"${code}":${rate}`)
  })

  it('refusals fit the schema of errors', async () => {
    const refused = ['/v1/prices?limit=x&providers=y', '/nothing', '/v1/prices?item_id=2000000000', '/v1/fx%']
    for (const path of refused) {
      const { status, body } = await scenario.ask(path)
      expect(status).to.be.greaterThan(399)
      errorReply.parse(body)
    }
  })

  it('can be described: each schema is plain JSON Schema, with every bound', () => {
    for (const { path, query, reply } of ROUTES) {
      const described = z.toJSONSchema(reply, { target: 'draft-2020-12', unrepresentable: 'throw' })
      expect(JSON.stringify(described), path).to.include('"type"')
      if (!query) continue
      const parameters = z.toJSONSchema(query, { io: 'input', unrepresentable: 'throw' }) as {
        properties: Record<string, object>
      }
      for (const [name, schema] of Object.entries(parameters.properties)) {
        expect(Object.keys(schema), `${path} ${name}`).to.include('type')
      }
    }
    expect(z.toJSONSchema(listingQuery({ providers, isCurrency, pageMax: 100 }), { io: 'input' }))
      .to.have.nested.property('properties.limit')
      .that.includes({ type: 'integer', minimum: 1, maximum: 100 })
    z.toJSONSchema(errorReply, { unrepresentable: 'throw' })
  })
})
