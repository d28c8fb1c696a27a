import type { IncomingMessage } from 'node:http'
import { expect } from 'chai'
import { HttpError } from '#infra/http/http-error.ts'
import { parse } from '#infra/http/request.ts'
import type { Violation } from '#schemas/api/error.ts'
import { type FeedQuery, FILTER_VALUES_MAX, feedQuery, type ReplayQuery, replayQuery } from '#schemas/api/feed-query.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { openItemNames } from '#schemas/values/item-name.ts'
import { feedRequestOf } from '#services/feed/feed-request.ts'

const KEYS = ['provider_01', 'provider_02', 'provider_03']
const SCHEMA = feedQuery(KEYS)
const ITEMS = [{ item_id: 1, market_hash_name: 'AK-47  | Redline', phase: null }] as CatalogItem[]
const CATALOG = { ...openItemNames(ITEMS), byId: (id: number) => ITEMS.find(item => item.item_id === id) }
const read = (schema: Parameters<typeof parse>[0], query: string) =>
  parse(schema, { url: `/feed/prices?${query}`, headers: {} } as IncomingMessage)
const parsed = (query: string) => feedRequestOf('ask', read(SCHEMA, query) as FeedQuery, CATALOG, KEYS)
const replayed = (query: string) => read(replayQuery(KEYS), `from=2026-03-03&${query}`) as ReplayQuery

/** The only violation of a query. */
function refused(take: () => unknown): Pick<Violation, 'type' | 'loc' | 'ctx'> {
  try {
    take()
  } catch (error) {
    if (!(error instanceof HttpError) || typeof error.detail === 'string') throw error
    const [{ type, loc, ctx }, ...more] = error.detail as [Violation]
    expect(more).to.deep.equal([])
    return { type, loc, ctx }
  }
  throw new Error('the query was taken')
}
const repeated = (name: string, count: number) => Array.from({ length: count }, () => `${name}=7`).join('&')

describe('feed query', () => {
  it('asks for everything when it says nothing', () =>
    expect(parsed('')).to.deep.equal({
      subscription: { side: 'ask', providers: undefined, itemIds: new Set(), names: new Set(), isFiltered: false },
      providers: KEYS,
      itemIdsCount: 0,
      namesCount: 0,
      options: { resume: false, snapshot: false, conflate: false },
    }))

  it('takes repeated values, counts them as sent and ignores what it does not know', () => {
    const query =
      'providers=provider_02&item_ids=5&item_ids=5&item_ids=12&market_hash_names=AK-47+%7C+Redline+(Well-Worn)&x=1&providers=provider_02'
    const { subscription, options: _, ...ready } = parsed(query)
    expect(subscription).to.deep.equal({
      side: 'ask',
      providers: new Set(['provider_02']),
      itemIds: new Set([5, 12]),
      names: new Set(['AK-47 | Redline (Well-Worn)']),
      isFiltered: true,
    })
    expect(ready).to.deep.equal({ providers: ['provider_02'], itemIdsCount: 3, namesCount: 1 })
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

  it('takes what lies beyond the specification only where it is asked for, and never on a replay', () => {
    const none = { resume: false, snapshot: false, conflate: false }
    for (const [query, options] of [
      ['resume=false&snapshot=False', none],
      ['resume=true&snapshot=true', { ...none, resume: true, snapshot: true }],
      ['policy=conflate&snapshot=TRUE', { ...none, conflate: true, snapshot: true }],
    ] as const)
      expect(parsed(query).options, query).to.deep.equal(options)
    const replay = replayed('resume=maybe&snapshot=2&policy=drop&policy=drop')
    expect(feedRequestOf('ask', replay, CATALOG, KEYS).options).to.deep.equal(none)
  })

  for (const [title, query, type, name] of [
    ['to resume where changes are left out', 'policy=conflate&resume=true', 'value_error', 'policy'],
    ['too many ids', repeated('item_ids', FILTER_VALUES_MAX + 1), 'too_long', 'item_ids'],
    [
      'too many of both',
      `${repeated('item_ids', 20)}&${repeated('market_hash_names', 81)}`,
      'too_long',
      'market_hash_names',
    ],
  ] as const)
    it(`refuses ${title}`, () => expect(refused(() => parsed(query))).to.deep.include({ type, loc: ['query', name] }))

  it('takes a speed of 0, or one that ends: a replay at a thousandth used to hold its place for a month', () => {
    for (const speed of ['0', '0x', '0.000', '0.1', '0.1x', '1', '10000'])
      expect(replayed(`speed=${speed}`).speed).to.equal(speed)
    for (const speed of ['0.001', '0.001x', '0.09', '00.05x'])
      expect(refused(() => replayed(`speed=${speed}`))).to.deep.equal({
        type: 'greater_than_equal',
        loc: ['query', 'speed'],
        ctx: { ge: 0.1 },
      })
  })
})
