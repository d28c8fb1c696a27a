import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { loadMarket, type Market } from '#infra/config/market.ts'
import { loadProviders } from '#infra/config/providers.ts'
import { CommandFailure } from '#services/cli/command-failure.ts'
import { settleEnvironment } from '#services/cli/settle-environment.ts'
import { compileMapping } from '#services/ingest/connectors/http-json/map.ts'

type HttpFeed = Extract<Market['feeds'][number], { connector: 'http-json' }>

const DOPPLER = '★ Karambit | Doppler (Factory New)'
const AK = 'AK-47 | Redline (Field-Tested)'
type Entry = [name: unknown, phase: unknown, price: unknown, quantity: unknown, url?: string]

const CASES: { feed: string; page: unknown; entries: Entry[]; currency?: string; next?: string }[] = [
  {
    feed: 'market_csgo ask',
    page: {
      success: true,
      time: 1,
      currency: 'USD',
      items: [
        { market_hash_name: AK, volume: '12', price: '1.234' },
        { market_hash_name: 'Nothing', volume: '0', price: '0.000' },
        { market_hash_name: 'Nothing', volume: null, price: null },
        { market_hash_name: 'Odd', volume: 'many', price: '2.000' },
      ],
    },
    entries: [
      [AK, undefined, 124, 12],
      ['Odd', undefined, 200, 'many'],
    ],
    currency: 'USD',
  },
  {
    feed: 'white_market ask',
    page: [
      { market_hash_name: AK, price: '1.230', market_product_link: 'https://w/1?a=1', market_product_count: 4 },
      {
        market_hash_name: DOPPLER,
        price: '500',
        market_product_link: 'https://w/2?csgoPhase=PHASE2',
        market_product_count: 1,
      },
      {
        market_hash_name: DOPPLER,
        price: '900',
        market_product_link: 'https://w/3?csgoPhase=BLACK_PEARL',
        market_product_count: 1,
      },
      { market_hash_name: AK, price: '0.001', market_product_link: null, market_product_count: 2 },
    ],
    entries: [
      [AK, undefined, 123, 4, 'https://w/1?a=1'],
      [DOPPLER, 'Phase 2', 50_000, 1, 'https://w/2?csgoPhase=PHASE2'],
      [DOPPLER, 'Black Pearl', 90_000, 1, 'https://w/3?csgoPhase=BLACK_PEARL'],
      [AK, undefined, 1, 2, null as never],
    ],
  },
  {
    feed: 'skinport ask',
    page: [
      { market_hash_name: AK, version: null, currency: 'USD', min_price: 1.29, quantity: 3, item_page: 'https://s/1' },
      { market_hash_name: DOPPLER, version: 'Ruby', min_price: 900.5, quantity: 1, item_page: 'https://s/2' },
      { market_hash_name: DOPPLER, version: 'default', min_price: 500, quantity: 2, item_page: 'https://s/3' },
      { market_hash_name: 'Nothing', version: null, min_price: null, quantity: 0, item_page: 'https://s/4' },
    ],
    entries: [
      [AK, null, 129, 3, 'https://s/1'],
      [DOPPLER, 'Ruby', 90_050, 1, 'https://s/2'],
      [DOPPLER, undefined, 50_000, 2, 'https://s/3'],
    ],
  },
  {
    feed: 'waxpeer ask',
    page: {
      success: true,
      items: [
        { name: AK, count: 2, min: 1_234 },
        { name: `${DOPPLER} Phase 2`, count: 1, min: 500_000 },
        { name: 'Nothing', count: 0, min: 0 },
        { name: null, count: 1, min: 10 },
      ],
    },
    entries: [
      [AK, undefined, 124, 2],
      [DOPPLER, 'Phase 2', 50_000, 1],
      ['null', undefined, 1, 1],
    ],
  },
  {
    feed: 'waxpeer bid',
    page: {
      success: true,
      offers: [
        { name: AK, max: 1_009 },
        { name: `${DOPPLER} Ruby`, max: 800_000 },
      ],
    },
    entries: [
      [AK, undefined, 100, 1],
      [DOPPLER, 'Ruby', 80_000, 1],
    ],
  },
  {
    feed: 'csfloat ask',
    page: [{ market_hash_name: AK, min_price: 123, quantity: 4 }],
    entries: [[AK, undefined, 123, 4]],
    next: '/api/v1/listings/price-list/doppler',
  },
  {
    feed: 'csfloat ask',
    page: { data: [{ market_hash_name: DOPPLER, paint_index: 415, phase_name: 'Ruby', min_price: 90_000 }] },
    entries: [[DOPPLER, 'Ruby', 90_000, 1]],
  },
  {
    feed: 'lis_skins ask',
    page: [{ name: AK, price: 1.11, unlocked_price: null, url: 'https://l/1', count: 2 }],
    entries: [[AK, undefined, 111, 2, 'https://l/1']],
  },
  {
    feed: 'lis_skins ask',
    page: { items: [{ name: AK, price: 1.11, url: 'https://l/1', count: 2 }] },
    entries: [[AK, undefined, 111, 2, 'https://l/1']],
  },
  {
    feed: 'bitskins ask',
    page: { list: [{ name: `${DOPPLER} Sapphire`, skin_id: 1, price_min: 1_230, price_max: 2, quantity: 3 }] },
    entries: [[DOPPLER, 'Sapphire', 123, 3]],
  },
  {
    feed: 'skincash ask',
    page: {
      currency: 'eur',
      updated_at: 1,
      items: [{ market_hash_name: AK, price: 1.2, quantity: 1, item_page: 'https://c/1' }],
    },
    entries: [[AK, undefined, 120, 1, 'https://c/1']],
    currency: 'EUR',
  },
  {
    feed: 'skins49 ask',
    page: [{ market_hash_name: AK, min_price: 123, quantity: 5 }],
    entries: [[AK, undefined, 123, 5]],
  },
  {
    feed: 'cs_deals ask',
    page: { success: true, response: { time_updated: 1, items: [{ marketname: AK, lowest_price: '1.2' }] } },
    entries: [[AK, undefined, 120, 1]],
  },
]

describe('the public market', () => {
  const market = loadMarket('public')
  const local = { servers: undefined, stateDir: 's', cursorKey: undefined, secretKey: undefined }
  const feeds = new Map(market.feeds.map(feed => [`${feed.provider} ${feed.side}`, feed as HttpFeed]))

  for (const { feed, page, entries, currency, next } of CASES) {
    const [first] = entries
    it(`reads ${feed}: ${first?.[0]}${first?.[1] ? `, ${first[1]}` : ''} at ${first?.[2]}`, async () => {
      const { provider, side, options } = feeds.get(feed) ?? expect.fail('no such feed')
      const mapped = await compileMapping(options, { provider, side })(page)
      const rows = mapped.entries.map((entry): unknown[] => {
        const { market_hash_name: name, phase, price, quantity, url } = entry as unknown as Record<string, unknown>
        return url === undefined ? [name, phase, price, quantity] : [name, phase, price, quantity, url]
      })
      expect(rows).to.deep.equal(entries)
      expect([mapped.currency, mapped.paging]).to.deep.equal([currency, next])
    })
  }

  it('has a case for every list, and a registry with exactly its marketplaces', () => {
    expect([...new Set(CASES.map(one => one.feed))].sort()).to.deep.equal([...feeds.keys()].sort())
    const registry = loadProviders(market.providers)
    expect(registry.askKeys).to.deep.equal([...new Set(market.feeds.map(({ provider }) => provider))].sort())
    const bids = market.feeds.filter(({ side }) => side === 'bid').map(({ provider }) => provider)
    expect(registry.bidKeys).to.deep.equal(bids)
  })

  it('brings its registry and exchange rates to every role, and to commands beside it, unless they are set', () => {
    const settled = (given: Record<string, string>, market?: string) => {
      const { MARKETLOG_PROVIDERS, FX_URL } = settleEnvironment(given, { ...local, market }, false)
      return [MARKETLOG_PROVIDERS, FX_URL]
    }
    const own = [market.providers, market.fx_url]
    expect(own).not.to.include(undefined)
    expect([settled({ MARKET: 'public' }), settled({}, 'public')]).to.deep.equal([own, own])
    expect([settled({ MARKET: 'demo' }, 'public'), settled({}), settled({ MARKET: 'nowhere' })]).to.deep.equal([
      ...Array.from({ length: 3 }, () => [undefined, undefined]),
    ])
    expect(settled({ MARKET: 'public', MARKETLOG_PROVIDERS: 'p', FX_URL: 'f' })).to.deep.equal(['p', 'f'])
  })

  it('used to end every command with a stack where its file cannot be read: one line names the file and the fault', () => {
    const folder = mkdtempSync(join(tmpdir(), 'marketlog-market-'))
    const MARKET = join(folder, 'market.json')
    const failure = (text: string): unknown => {
      writeFileSync(MARKET, text)
      try {
        return settleEnvironment({ MARKET }, local, false)
      } catch (error) {
        return error
      }
    }
    for (const [text, fault] of [
      ['{"name": "x"', /^cannot read \S+market.json as JSON: Expected/],
      ['{"name": "x"}', /^\S+market.json is not valid:.*feeds/s],
    ] as const) {
      const error = failure(text)
      expect(error).to.be.instanceOf(CommandFailure).and.to.include({ exitCode: 65 })
      expect((error as Error).message).to.match(fault)
    }
    rmSync(folder, { recursive: true })
  })
})
