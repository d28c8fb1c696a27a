import { expect } from 'chai'
import { type HttpJsonOptions, type Market, parseMarket } from '#infra/config/market.ts'
import { FetchFailure } from '#services/ingest/bounded-fetch.ts'
import { compileMapping } from '#services/ingest/connectors/http-json/map.ts'
import { firstPage, nextPage, withoutRepeats } from '#services/ingest/connectors/http-json/paging.ts'
import type { SourceSettings } from '#services/ingest/source.ts'

const MAPPING = '$.{"market_hash_name": name, "price": $minor(cost), "quantity": n}'

function optionsOf(over: object): HttpJsonOptions {
  const options = { url: 'https://api.example/v1/prices', mapping: MAPPING, ...over }
  const feed = { provider: 'p', side: 'ask', connector: 'http-json', interval_ms: 60_000, options }
  const market = parseMarket(JSON.stringify({ name: 'test', feeds: [feed] }), '/market.json')
  return (market.feeds[0] as Extract<Market['feeds'][number], { connector: 'http-json' }>).options
}
const read = (over: object, page: unknown, side: SourceSettings['side'] = 'ask') =>
  compileMapping(optionsOf(over), { provider: 'p', side })(page)

async function failure(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => undefined,
    error => error,
  )
}

describe('ingest: mapping of JSON', () => {
  const row = (name: string, cost: unknown, n: unknown = 1) => ({ name, cost, n })
  const entry = (name: string, price: unknown, quantity: unknown = 1) => ({ market_hash_name: name, price, quantity })

  it('takes no, one or many rows', async () => {
    for (const rows of [[], [row('a', '1.10')], [row('a', 2), row('b', '0.03', 4)]]) {
      const { entries } = await read({ rows: 'data.rows' }, { data: { rows } })
      const expected = { 1: [entry('a', 110)], 2: [entry('a', 200), entry('b', 3, 4)] }[rows.length] ?? []
      expect(JSON.parse(JSON.stringify(entries))).to.deep.equal(expected)
    }
  })

  it('keeps the order of 1,234 rows over its portions', async () => {
    const rows = Array.from({ length: 1_234 }, (_, i) => row(`item ${i}`, `${i}.01`))
    const { entries, rows: count } = await read({}, rows)
    expect(count).to.equal(1_234)
    expect(JSON.parse(JSON.stringify(entries))).to.deep.equal(rows.map((_, i) => entry(`item ${i}`, i * 100 + 1)))
  })

  it('lets other work run between its portions', async () => {
    const rows = Array.from({ length: 20_000 }, (_, i) => row(`item ${i}`, i))
    let turns = 0
    let isCounting = true
    const count = (): void => {
      turns++
      if (isCounting) setImmediate(count)
    }
    count()
    await read({}, rows)
    isCounting = false
    expect(turns).to.be.greaterThan(30)
  })

  const rounded: [cost: unknown, ask: unknown, bid: unknown, sale: unknown][] = [
    ['0.004', 1, 0, 0],
    ['50.301', 5_031, 5_030, 5_030],
    ['1.009', 101, 100, 101],
    ['1.005', 101, 100, 101],
    ['1.0000000000000000000001', 101, 100, 100],
    [0.29, 29, 29, 29],
    [1e-7, 1, 0, 0],
  ]
  for (const [cost, ask, bid, sale] of rounded)
    it(`rounds ${JSON.stringify(cost)} by its side`, async () => {
      const sides = ['ask', 'bid', 'sale'] as const
      const pages = await Promise.all(sides.map(side => read({}, [row('a', cost)], side)))
      expect(pages.map(({ entries }) => entries[0]?.price)).to.deep.equal([ask, bid, sale])
    })

  it('leaves what is no decimal for the judge', async () => {
    const { entries } = await read({}, [row('a', 'free'), row('b', null), { name: 'c', n: 1 }])
    expect(entries.map(({ price }) => price)).to.deep.equal(['free', null, undefined])
  })

  it('reads the currency and the page from the page', async () => {
    const page = { meta: { cur: 'cny', next: 'abc' }, rows: [row('a', 1)] }
    const over = { rows: 'rows', currency: 'meta.cur', paging: { by: 'cursor', parameter: 'c', next: 'meta.next' } }
    expect(await read(over, page)).to.include({ currency: 'CNY', paging: 'abc' })
    const mapping = '$.{"market_hash_name": name & " " & $page.meta.cur, "price": cost, "quantity": n}'
    expect((await read({ ...over, mapping }, page)).entries[0]?.market_hash_name).to.equal('a cny')
  })

  it('fails as a whole when an expression does', async () => {
    expect(await failure(read({ mapping: '$sum($.cost)' }, [row('a', 'x')]))).to.be.instanceOf(FetchFailure)
    expect(await failure(read({ currency: '5' }, []))).to.be.instanceOf(FetchFailure)
  })

  it('refuses a broken expression at the start and names it', () => {
    expect(() => compileMapping(optionsOf({ rows: 'data.(' }), { provider: 'provider_09', side: 'ask' })).to.throw(
      /rows of provider_09/,
    )
  })
})

describe('ingest: paging', () => {
  const first = new URL('https://api.example/v1/prices?key=a')
  const next = (paging: object, page: { rows: number; paging?: unknown }, read = 1, current = first) =>
    nextPage(optionsOf({ paging }).paging, first, current, { paging: undefined, ...page }, read)
  const at = (search: string) => new URL(`https://api.example/v1/prices${search}`)

  it('by number ends at an empty page, or where the expression says so', () => {
    const paging = { by: 'page', parameter: 'p', first: 0 }
    expect(firstPage(first, optionsOf({ paging }).paging).search).to.equal('?key=a&p=0')
    expect(next(paging, { rows: 9 }, 3)).to.deep.equal(at('?key=a&p=3'))
    expect(next(paging, { rows: 0 }, 3)).to.equal(undefined)
    expect(next({ ...paging, more: 'more' }, { rows: 9, paging: false })).to.equal(undefined)
    expect(next({ ...paging, more: 'more' }, { rows: 9, paging: true }, 1)).to.deep.equal(at('?key=a&p=1'))
  })

  it('by offset ends at a short page', () => {
    const paging = { by: 'offset', parameter: 'skip', step: 100 }
    expect(firstPage(first, optionsOf({ paging }).paging).search).to.equal('?key=a&skip=0')
    expect(next(paging, { rows: 100 }, 2)).to.deep.equal(at('?key=a&skip=200'))
    expect(next(paging, { rows: 99 }, 2)).to.equal(undefined)
  })

  it('by cursor ends where there is none', () => {
    const paging = { by: 'cursor', parameter: 'c', next: 'next' }
    expect(firstPage(first, optionsOf({ paging }).paging)).to.equal(first)
    expect(next(paging, { rows: 1, paging: 'a/b' })).to.deep.equal(at('?key=a&c=a%2Fb'))
    for (const none of [undefined, null, '', false]) expect(next(paging, { rows: 1, paging: none })).to.equal(undefined)
    expect(() => next(paging, { rows: 1, paging: {} })).to.throw(FetchFailure)
  })

  it('by link follows relative and absolute ones, never to another origin', () => {
    const paging = { by: 'link', next: 'next' }
    expect(next(paging, { rows: 1, paging: '?page=2' })).to.deep.equal(at('?page=2'))
    expect(next(paging, { rows: 1, paging: 'https://api.example/x' })).to.deep.equal(new URL('https://api.example/x'))
    for (const other of ['https://evil.example/x', 'http://api.example/x'])
      expect(() => next(paging, { rows: 1, paging: other })).to.throw(FetchFailure)
    expect(next(paging, { rows: 1, paging: null })).to.equal(undefined)
  })
})

describe('ingest: pages of sales', () => {
  const rows = (names: string) => [...names].map(name => ({ market_hash_name: name, price: 1, sold_at: 1 }))
  const cases: { what: string; before: string; page: string; rest: string }[] = [
    { what: 'the first page stays whole', before: '', page: 'aab', rest: 'aab' },
    { what: 'a page that follows stays whole', before: 'abc', page: 'def', rest: 'def' },
    { what: 'rows that moved on while it was read are left out', before: 'abcd', page: 'cdef', rest: 'ef' },
    { what: 'rows of the page before that do not end it stay', before: 'abcd', page: 'bce', rest: 'bce' },
    { what: 'the longest repeat counts', before: 'abb', page: 'bbba', rest: 'ba' },
    { what: 'a page that is the one before has nothing new', before: 'abc', page: 'abc', rest: '' },
  ]
  for (const { what, before, page, rest } of cases) {
    it(what, () => expect(withoutRepeats(rows(before), rows(page))).to.deep.equal(rows(rest)))
  }
})
