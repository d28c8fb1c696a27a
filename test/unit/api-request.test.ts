import type { IncomingMessage } from 'node:http'
import { expect } from 'chai'
import { HttpError } from '#infra/http/http-error.ts'
import { parse, rawQuery } from '#infra/http/request.ts'
import { candlesQuery } from '#schemas/api/candles.ts'
import { itemsQuery } from '#schemas/api/catalog.ts'
import { violation } from '#schemas/api/error.ts'
import { listingQuery } from '#schemas/api/listing.ts'
import { getQuery } from '#schemas/api/query-values.ts'
import { salesQuery } from '#schemas/api/sales.ts'

const requestOf = (query: string) => ({ url: `/prices${query}`, headers: {} }) as IncomingMessage

const listing = listingQuery({
  providers: ['ak', 'bk'],
  isCurrency: code => code === 'USD' || code === 'EUR',
  pageMax: 100,
})

/** Violations as [type, last steps of loc], in the order of the answer. */
function violationsOf(run: () => unknown): { type: string; at: string; input: unknown; ctx: object }[] {
  try {
    run()
  } catch (error) {
    if (!(error instanceof HttpError) || typeof error.detail === 'string') throw error
    for (const one of error.detail) violation.parse(one)
    return error.detail.map(({ type, loc, input, ctx }) => ({ type, at: loc.join('.'), input, ctx }))
  }
  return []
}

describe('a query string', () => {
  it('knows no prototype', () => {
    const raw = rawQuery(requestOf('?__proto__=1&constructor=2&toString=3'))
    expect(Object.entries(raw)).to.deep.equal([
      ['__proto__', '1'],
      ['constructor', '2'],
      ['toString', '3'],
    ])
    expect(parse(listing, requestOf('?__proto__=1&hasOwnProperty=x'))).to.deep.equal({
      currency: 'USD',
      limit: 100,
      offset: 0,
    })
  })
})

describe('the parameters of a listing', () => {
  it('come typed, with defaults, and without what the request does not name', () => {
    const query = parse(listing, requestOf('?item_id=7&providers=bk&providers=ak&limit=5&offset=%2B3&colour=red'))
    expect(query).to.deep.equal({ item_id: 7, providers: ['bk', 'ak'], limit: 5, offset: 3, currency: 'USD' })
  })

  const cases: { query: string; violations: [type: string, at: string][] }[] = [
    { query: '?limit=101', violations: [['less_than_equal', 'query.limit']] },
    { query: '?limit=0', violations: [['greater_than_equal', 'query.limit']] },
    { query: '?limit=', violations: [['int_parsing', 'query.limit']] },
    { query: '?limit=1e2', violations: [['int_parsing', 'query.limit']] },
    { query: '?limit=5&limit=6', violations: [['value_error', 'query.limit']] },
    { query: '?offset=-1', violations: [['greater_than_equal', 'query.offset']] },
    { query: '?item_id=99999999999999999999', violations: [['int_parsing', 'query.item_id']] },
    { query: '?phase=Phase+5', violations: [['enum', 'query.phase']] },
    { query: '?providers=ck', violations: [['enum', 'query.providers.0']] },
    { query: '?providers=ak&providers=ck', violations: [['enum', 'query.providers.1']] },
    { query: '?providers=', violations: [['enum', 'query.providers.0']] },
    { query: '?currency=eur', violations: [['enum', 'query.currency']] },
    { query: '?market_hash_name=', violations: [['string_too_short', 'query.market_hash_name']] },
    { query: `?market_hash_name=${'x'.repeat(201)}`, violations: [['string_too_long', 'query.market_hash_name']] },
    { query: '?market_hash_name=a%00b', violations: [['value_error', 'query.market_hash_name']] },
    { query: '?market_hash_name=a&market_hash_name=b', violations: [['value_error', 'query.market_hash_name']] },
  ]
  for (const { query, violations } of cases)
    it(`are refused: ${query.slice(0, 60)}`, () => {
      const found = violationsOf(() => parse(listing, requestOf(query)))
      expect(found.map(({ type, at }) => [type, at])).to.deep.equal(violations)
    })

  it('are refused all at once, with what was sent and what would do', () => {
    const query = '?limit=500&offset=x&item_id=1&item_id=2&providers=ak&providers=zk&currency=ZZZ&phase=Opal'
    const found = violationsOf(() => parse(listing, requestOf(query)))
    expect(found).to.have.deep.members([
      { type: 'less_than_equal', at: 'query.limit', input: '500', ctx: { le: 100 } },
      { type: 'int_parsing', at: 'query.offset', input: 'x', ctx: {} },
      { type: 'value_error', at: 'query.item_id', input: ['1', '2'], ctx: {} },
      { type: 'enum', at: 'query.providers.1', input: 'zk', ctx: { expected: "'ak' or 'bk'" } },
      { type: 'enum', at: 'query.currency', input: 'ZZZ', ctx: { expected: 'a currency code that GET /fx lists' } },
      {
        type: 'enum',
        at: 'query.phase',
        input: 'Opal',
        ctx: {
          expected: "'Phase 1', 'Phase 2', 'Phase 3', 'Phase 4', 'Ruby', 'Sapphire', 'Black Pearl' or 'Emerald'",
        },
      },
    ])
  })
})

describe('the name of a parameter', () => {
  const strictly = (query: string) =>
    violationsOf(() => parse(getQuery(listing), requestOf(query))).map(({ at, ctx }) => [at, ctx])

  it('that only `strict` refuses comes with the nearest one', () => {
    for (const [name, expected] of [
      ['limt', 'limit'],
      ['itemid_', 'item_id'],
      ['market_name', 'market_hash_name'],
      ['provider', 'providers'],
      ['curency[]', 'currency'],
      ['page_offset', 'offset'],
    ] as const) {
      expect(strictly(`?${name}=1`), name).to.deep.equal(name === 'itemid_' ? [['query.itemid_', { expected }]] : [])
      expect(strictly(`?strict=true&${name}=1`), name).to.deep.equal([[`query.${name}`, { expected }]])
    }
  })

  it('is none of what the others select', () => {
    expect(parse(getQuery(listing), requestOf('?strict=true&limit=5'))).to.deep.equal(
      parse(listing, requestOf('?limit=5')),
    )
  })

  it('is reported together with what is wrong with the values, twenty faults in all', () => {
    expect(strictly('?Limit=5&offset=x')).to.deep.equal([
      ['query.Limit', { expected: 'limit' }],
      ['query.offset', {}],
    ])
    const many = Array.from({ length: 3_000 }, (_, at) => `a${at}`).join('&')
    expect(() => parse(getQuery(listing), requestOf(`?strict=true&limit=x&${many}`)))
      .to.throw(HttpError)
      .with.property('omitted', 2_981)
  })
})

describe('the parameters of other routes', () => {
  const candles = candlesQuery({ isCurrency: () => true, lookbackDaysMax: 30 })
  const sales = salesQuery({ providers: ['ak'], isCurrency: () => true, pageMax: 100 })
  function refuses(
    schema: Parameters<typeof parse>[0],
    query: string,
    ...violations: [type: string, at: string][]
  ): void {
    const found = violationsOf(() => parse(schema, requestOf(query)))
    expect(found.map(({ type, at }) => [type, at])).to.deep.equal(violations)
  }

  it('candles need an item, whatever else is wrong', () =>
    refuses(
      candles,
      '?interval=2m&fill=maybe&lookback=abc&start=2026-02-30',
      ['datetime_parsing', 'query.start'],
      ['value_error', 'query.lookback'],
      ['enum', 'query.interval'],
      ['bool_parsing', 'query.fill'],
      ['missing', 'query.item_id'],
    ))
  it('a window must not end before it starts', () =>
    refuses(candles, '?item_id=1&start=2026-03-02T00:00:00&end=2026-03-02', ['value_error', 'query.end']))
  it('floats are numbers in order', () =>
    refuses(
      sales,
      '?min_float=0.5&max_float=0.4&paint_seed=1.5',
      ['int_parsing', 'query.paint_seed'],
      ['value_error', 'query.max_float'],
    ))
  it('are true or false as the description says, in any case of the letters', () => {
    const read = (word: string) => itemsQuery.safeParse({ is_souvenir: word }).data?.is_souvenir
    for (const word of ['true', 'True', 'TRUE']) expect(read(word), word).to.equal(true)
    for (const word of ['false', 'False']) expect(read(word), word).to.equal(false)
    for (const word of ['1', '0', 'yes', 'off', 't', '', 'constructor']) expect(read(word), word).to.equal(undefined)
  })
})
