import type { IncomingMessage } from 'node:http'
import { expect } from 'chai'
import { HttpError } from '#infra/http/http-error.ts'
import { parse } from '#infra/http/request.ts'
import type { Violation } from '#schemas/api/error.ts'
import { FILTER_VALUES_MAX, feedQuery, replayQuery } from '#schemas/api/feed-query.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { openItemNames } from '#schemas/values/item-name.ts'
import { feedRequestOf } from '#services/feed/feed-request.ts'

const KEYS = ['provider_01', 'provider_02', 'provider_03']
const SCHEMA = feedQuery(KEYS)
const ITEMS = [{ item_id: 1, market_hash_name: 'AK-47  | Redline', phase: null }] as CatalogItem[]
const CATALOG = { ...openItemNames(ITEMS), byId: (id: number) => ITEMS.find(item => item.item_id === id) }
const parsed = (query: string) =>
  feedRequestOf('ask', parse(SCHEMA, { url: `/feed/prices?${query}`, headers: {} } as IncomingMessage), CATALOG)

function refused(query: string): Violation[] {
  try {
    parsed(query)
  } catch (error) {
    if (!(error instanceof HttpError) || typeof error.detail === 'string') throw error
    return error.detail
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
    for (const query of ['', 'resume=false&snapshot=False']) expect(parsed(query).options).to.deep.equal(none)
    expect(parsed('resume=true&snapshot=true').options).to.deep.equal({ ...none, resume: true, snapshot: true })
    expect(parsed('policy=conflate&snapshot=TRUE').options).to.deep.equal({ ...none, conflate: true, snapshot: true })
  })

  function refuses(query: string, type: string, ...loc: (string | number)[]): void {
    const [violation, ...more] = refused(query)
    expect(violation).to.deep.include({ type, loc: ['query', ...loc] })
    expect(more).to.deep.equal([])
  }

  it('refuses to resume where changes are left out', () =>
    refuses('policy=conflate&resume=true', 'value_error', 'policy'))
  it('refuses too many ids', () =>
    refuses(repeated('item_ids', FILTER_VALUES_MAX + 1).join('&'), 'too_long', 'item_ids'))
  it('refuses too many of both', () =>
    refuses(
      [...repeated('item_ids', 20), ...repeated('market_hash_names', 81)].join('&'),
      'too_long',
      'market_hash_names',
    ))

  const replayed = (query: string) => {
    const url = `/feed/replay/prices?from=2026-03-03&${query}`
    return parse(replayQuery(KEYS), { url, headers: {} } as IncomingMessage)
  }

  it('ignores the options of a live feed on a replay, whatever they say', () => {
    const { options } = feedRequestOf('ask', replayed('resume=maybe&snapshot=2&policy=drop&policy=drop'), CATALOG)
    expect(options).to.deep.equal({ resume: false, snapshot: false, conflate: false })
  })

  it('takes a speed of 0, or one that ends: a replay at a thousandth used to hold its place for a month', () => {
    for (const speed of ['0', '0x', '0.000', '0.1', '0.1x', '1', '10000'])
      expect(replayed(`speed=${speed}`).speed).to.equal(speed)
    for (const speed of ['0.001', '0.001x', '0.09', '00.05x']) {
      try {
        replayed(`speed=${speed}`)
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
