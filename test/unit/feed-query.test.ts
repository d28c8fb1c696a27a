/**
 * What a feed's URL may say, and the error for one that says something else.
 */
import type { IncomingMessage } from 'node:http'
import { expect } from 'chai'
import { HttpError } from '#infra/http/http-error.ts'
import { parse } from '#infra/http/request.ts'
import type { Violation } from '#schemas/api/error.ts'
import { FILTER_VALUES_MAX, feedQuery, replayQuery } from '#schemas/api/feed-query.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { openItemNames } from '#schemas/values/item-name.ts'
import { feedRequestOf } from '#services/feed/feed-query.ts'

const KEYS = ['provider_01', 'provider_02', 'provider_03']
const SCHEMA = feedQuery(KEYS)
const ITEMS = [{ item_id: 1, market_hash_name: 'AK-47  | Redline', phase: null }] as CatalogItem[]
const CATALOG = { ...openItemNames(ITEMS), byId: (id: number) => ITEMS.find(item => item.item_id === id) }
const parsed = (query: string) =>
  feedRequestOf('ask', parse(SCHEMA, { url: `/feed/prices?${query}`, headers: {} } as IncomingMessage), CATALOG)

/** The refusal of a query; its violations, or its code. */
function refused(query: string): Violation[] | string {
  try {
    parsed(query)
  } catch (error) {
    if (!(error instanceof HttpError)) throw error
    return typeof error.detail === 'string' ? error.code : error.detail
  }
  throw new Error('the query was taken')
}
const repeated = (name: string, count: number) => Array.from({ length: count }, () => `${name}=7`)

describe('feed query', () => {
  it('asks for everything when it says nothing', () => {
    const { subscription, providers, itemIdsCount, namesCount } = parsed('')
    expect(subscription).to.deep.equal({
      side: 'ask',
      providers: undefined,
      itemIds: new Set(),
      names: new Set(),
      isFiltered: false,
    })
    expect({ providers, itemIdsCount, namesCount }).to.deep.equal({
      providers: undefined,
      itemIdsCount: 0,
      namesCount: 0,
    })
  })

  it('takes repeated values, counts them as sent and ignores what it does not know', () => {
    const { subscription, providers, itemIdsCount, namesCount } = parsed(
      'providers=provider_02&item_ids=5&item_ids=5&item_ids=12&market_hash_names=AK-47+%7C+Redline+(Well-Worn)&x=1&providers=provider_02',
    )
    expect(subscription.providers).to.deep.equal(new Set(['provider_02']))
    expect(subscription.itemIds).to.deep.equal(new Set([5, 12]))
    expect(subscription.names).to.deep.equal(new Set(['AK-47 | Redline (Well-Worn)']))
    expect(subscription.isFiltered).to.equal(true)
    expect({ providers, itemIdsCount, namesCount }).to.deep.equal({
      providers: ['provider_02'],
      itemIdsCount: 3,
      namesCount: 1,
    })
  })

  it("takes a name in any spelling as the catalog's, one that it lacks as sent and in its plain form", () => {
    const spellings = [
      'AK-47+|+Redline',
      'AK-47%C2%A0|+Redline%20',
      'AK-47++|+Redline',
      'New++Team',
      '%EF%BB%BFNew++Team',
    ]
    const { subscription, namesCount } = parsed(spellings.map(name => `market_hash_names=${name}`).join('&'))
    expect(subscription.names).to.deep.equal(new Set(['AK-47  | Redline', 'New  Team', 'New Team', '\ufeffNew  Team']))
    expect(namesCount).to.equal(5)
  })

  it('takes what lies beyond the specification only where it is asked for', () => {
    const none = { resume: false, snapshot: false, conflate: false }
    for (const query of ['', 'resume=false&snapshot=0']) expect(parsed(query).options).to.deep.equal(none)
    expect(parsed('resume=true&snapshot=1').options).to.deep.equal({ ...none, resume: true, snapshot: true })
    expect(parsed('policy=conflate&snapshot=TRUE').options).to.deep.equal({ ...none, conflate: true, snapshot: true })
  })

  it('takes a hundred values of both filters together', () => {
    const query = [...repeated('item_ids', FILTER_VALUES_MAX - 1), 'market_hash_names=a'].join('&')
    expect(parsed(query)).to.include({ itemIdsCount: 99, namesCount: 1 })
  })

  const cases = [
    {
      name: 'an unknown provider',
      query: 'providers=provider_01&providers=nobody',
      type: 'enum',
      loc: ['query', 'providers', 1],
    },
    { name: 'an empty provider', query: 'providers=', type: 'enum', loc: ['query', 'providers', 0] },
    {
      name: 'an id that is no number',
      query: 'item_ids=1&item_ids=x',
      type: 'int_parsing',
      loc: ['query', 'item_ids', 1],
    },
    { name: 'an id with a fraction', query: 'item_ids=1.5', type: 'int_parsing', loc: ['query', 'item_ids', 0] },
    {
      name: 'an empty name',
      query: 'market_hash_names=',
      type: 'string_too_short',
      loc: ['query', 'market_hash_names', 0],
    },
    {
      name: 'a NUL in a name',
      query: 'market_hash_names=a%00b',
      type: 'value_error',
      loc: ['query', 'market_hash_names', 0],
    },
    { name: 'a flag that is none', query: 'resume=maybe', type: 'bool_parsing', loc: ['query', 'resume'] },
    { name: 'a flag twice', query: 'snapshot=true&snapshot=true', type: 'value_error', loc: ['query', 'snapshot'] },
    { name: 'an unknown policy', query: 'policy=drop', type: 'enum', loc: ['query', 'policy'] },
    {
      name: 'to resume where changes are left out',
      query: 'policy=conflate&resume=true',
      type: 'value_error',
      loc: ['query', 'policy'],
    },
    {
      name: 'too many ids',
      query: repeated('item_ids', FILTER_VALUES_MAX + 1).join('&'),
      type: 'too_long',
      loc: ['query', 'item_ids'],
    },
    {
      name: 'too many of both',
      query: [...repeated('item_ids', 20), ...repeated('market_hash_names', 81)].join('&'),
      type: 'too_long',
      loc: ['query', 'market_hash_names'],
    },
  ]
  for (const { name, query, type, loc } of cases)
    it(`refuses ${name}`, () => {
      const [violation, ...more] = refused(query) as Violation[]
      expect(violation).to.deep.include({ type, loc })
      expect(more).to.deep.equal([])
    })

  it('reports every violation at once, with what was sent and what was expected', () => {
    const violations = refused('providers=x&item_ids=y&market_hash_names=') as Violation[]
    expect(violations.map(({ type }) => type)).to.deep.equal(['enum', 'int_parsing', 'string_too_short'])
    expect(violations[0]).to.deep.include({
      input: 'x',
      ctx: { expected: "'provider_01', 'provider_02' or 'provider_03'" },
    })
  })

  it('cannot be read when its encoding is broken', () => {
    expect(refused('item_ids=%zz')).to.equal('BAD_REQUEST')
    expect(refused('market_hash_names=%ed%a0%80')).to.equal('BAD_REQUEST')
  })

  it('ignores the options of a live feed on a replay, whatever they say', () => {
    const query = 'from=2026-03-03&resume=maybe&snapshot=2&policy=drop&policy=drop'
    const request = { url: `/feed/replay/prices?${query}`, headers: {} } as IncomingMessage
    const { options } = feedRequestOf('ask', parse(replayQuery(KEYS), request), CATALOG)
    expect(options).to.deep.equal({ resume: false, snapshot: false, conflate: false })
  })

  it('takes a speed of 0, or one that ends: a replay at a thousandth used to hold its place for a month', () => {
    const speedOf = (speed: string) =>
      parse(replayQuery(KEYS), {
        url: `/feed/replay/prices?from=2026-03-03&speed=${speed}`,
        headers: {},
      } as IncomingMessage)
    for (const speed of ['0', '0x', '0.000', '0.1', '0.1x', '1', '10000']) expect(speedOf(speed).speed).to.equal(speed)
    for (const speed of ['0.001', '0.001x', '0.09', '00.05x']) {
      try {
        speedOf(speed)
        expect.fail(`${speed} was taken`)
      } catch (error) {
        if (!(error instanceof HttpError)) throw error
        const [found] = error.detail as Violation[]
        expect([found?.type, found?.loc, found?.ctx]).to.deep.equal([
          'greater_than_equal',
          ['query', 'speed'],
          { ge: 0.1 },
        ])
      }
    }
  })
})
