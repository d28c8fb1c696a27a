import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import fc from 'fast-check'
import { loadCurrencies } from '#infra/config/currencies.ts'
import { loadMarket } from '#infra/config/market.ts'
import { loadProviders, marketplaceUrl, type Provider } from '#infra/config/providers.ts'
import { loadTiers, TIERS } from '#infra/config/tiers.ts'
import { DAY_MS, MINUTE_MS } from '#schemas/values/instant.ts'
import { PHASES, parsePhase } from '#schemas/values/phase.ts'

/** Key, market type, currency, the fees of selling, of selling at once and of trading, buy orders, sales. */
const PROVIDERS = `
provider_01,STORE,USD,0.05,,,false,false provider_02,P2P,CNY,0.025,,,true,true provider_03,P2P,USD,0.025,,,true,false
provider_04,P2P,CNY,0.01,,,true,true provider_05,P2P,USD,0.02,,,false,false provider_06,P2P,USD,0.02,,,true,true
provider_07,P2P,USD,0.03,0.05,,false,true provider_08,P2P,USD,0.02,,,false,true provider_09,P2P,USD,0.05,,,false,false
provider_10,TRADING,USD,,,0.07,false,false provider_11,TRADING,USD,,,0.08,false,false
provider_12,P2P,USD,0.02,,,true,true provider_13,P2P,USD,0.03,,,true,false provider_14,P2P,CNY,0.02,,,true,false
provider_15,STORE,USD,0.1,,,false,false provider_16,P2P,USD,0.03,,,false,false
provider_17,TRADING,USD,,,0.06,false,false provider_18,STORE,USD,0.05,0.1,,false,false
provider_19,TRADING,USD,,,0.03,false,false provider_20,STORE,USD,0.05,,,false,false
provider_21,P2P,USD,0.05,,,true,false provider_22,TRADING,USD,,,0.09,false,false
provider_23,HYBRID,USD,0.05,0.2,,false,false provider_24,P2P,USD,0.05,,,false,false
provider_25,P2P,EUR,0.15,,,false,false provider_26,STORE,USD,,0.12,,false,false
provider_27,STORE,USD,,0.1,,false,false provider_28,STORE,USD,0.05,,,false,false
provider_29,STORE,USD,,0.15,,false,false provider_30,P2P,EUR,0.08,,,false,false
provider_31,STORE,USD,0.06,,,false,false provider_32,TRADING,USD,,,0.1,false,false
provider_33,P2P,USD,0.06,,,false,false provider_34,TRADING,USD,,,0.05,false,false
provider_35,STORE,USD,0.04,,,false,false provider_36,P2P,USD,0.15,,,true,false
provider_37,TRADING,USD,,,0.05,false,false provider_38,TRADING,USD,,,0.08,false,false
provider_39,P2P,USD,0.06,,,true,false provider_40,P2P,USD,0.05,,,true,false provider_41,P2P,CNY,0.01,,,true,true
`

const REQUESTS = {
  free: [20, 1_000],
  starter: [40, 50_000],
  pro: [100, 500_000],
  quant: [300, 1_000_000],
}

const providersText = readFileSync(new URL('../../infra/config/providers.json', import.meta.url), 'utf8')

describe('config: providers', () => {
  const registry = loadProviders()

  it('are the 41 of the specification, with market type, currency, fees and features', () => {
    expect(registry.all.map(entry => entry.key)).to.deep.equal(
      Array.from({ length: 41 }, (_, i) => `provider_${String(i + 1).padStart(2, '0')}`),
    )
    const rows = registry.all.map(({ key, market_type, default_currency, fees, features }) =>
      [
        key,
        market_type,
        default_currency,
        fees.sell_fee ?? '',
        fees.insta_sell_fee ?? '',
        fees.trading_spread_fee ?? '',
        features.has_buy_orders,
        features.has_recent_sales,
      ].join(','),
    )
    expect(rows).to.deep.equal(PROVIDERS.trim().split(/\s+/))
  })

  it('give sorted key sets: all asks, 12 with buy orders, 7 with sales', () => {
    const { askKeys, bidKeys, saleKeys } = registry
    expect([askKeys.length, bidKeys.length, saleKeys.length]).to.deep.equal([41, 12, 7])
    for (const keys of [askKeys, bidKeys, saleKeys]) expect(keys).to.deep.equal(keys.toSorted())
  })

  it('refresh every 5 to 30 minutes, and sales once a day', () => {
    for (const entry of registry.all) {
      expect(entry.refresh_interval_ms / MINUTE_MS, entry.key).to.be.within(5, 30)
      expect(entry.sales_interval_ms).to.equal(entry.features.has_recent_sales ? DAY_MS : null)
    }
  })

  /** The registry of a file whose text was edited. */
  const loadedFrom = (text: string) =>
    inFolder(folder => {
      const file = join(folder, 'mine.json')
      writeFileSync(file, text)
      return loadProviders(file)
    })
  const loadedWith = (edit: (providers: Provider[]) => unknown) => {
    const content = JSON.parse(providersText) as { providers: Provider[] }
    edit(content.providers)
    return loadedFrom(JSON.stringify(content))
  }

  it('come from another file with other keys, and nothing else changes', () => {
    const other = loadedFrom(providersText.replaceAll('provider_', 'shop-'))
    expect(other.bidKeys).to.deep.equal(registry.bidKeys.map(key => key.replace('provider_', 'shop-')))
  })

  it('have the host of their template, and those that they name', () => {
    const { all } = loadedWith(providers => set(providers, 1, { hosts: ['go.provider-02.example:8443'] }))
    expect(all.slice(0, 2).map(({ hosts }) => hosts)).to.deep.equal([
      ['provider-01.example'],
      ['provider-02.example', 'go.provider-02.example:8443'],
    ])
  })

  const faults: [what: string, index: number, members: object, ...says: string[]][] = [
    ['a host that is none', 4, { hosts: ['shop.example', 'https://shop.example/'] }, '.hosts[1]', 'host'],
    ['a key in capitals', 3, { key: 'Shop' }, '.key', 'lowercase'],
    ['a key twice', 1, { key: 'provider_01' }, '.key', 'twice'],
    ['a code twice', 1, { code: registry.all[0]?.code }, '.code', 'twice'],
    ['an unknown currency', 2, { default_currency: 'XQX' }, '.default_currency', 'XQX'],
    ['a fee in percent', 0, { fees: { sell_fee: 5, insta_sell_fee: null } }, '.fees.sell_fee', '<1'],
    ['an unknown variable', 5, { link_template: 'https://a.example/{name}' }, '.link_template', 'market_hash_name'],
    ['a template that is no URL', 5, { link_template: 'javascript:{item_id}' }, '.link_template', 'http'],
    ['sales without an interval', 1, { sales_interval_ms: null }, '.sales_interval_ms'],
    ['a member too many', 0, { colour: 'red' }, '', 'colour'],
  ]
  for (const [what, index, members, at, ...says] of faults)
    it(`are refused with file, member and fault: ${what}`, () => {
      const message = messageOf(() => loadedWith(providers => set(providers, index, members)))
      expect(message).to.match(/marketlog-config-\w+\/mine\.json/)
      for (const part of [`providers[${index}]${at}`, ...says]) expect(message).to.include(part)
    })

  it('are refused where there is none', () =>
    expect(messageOf(() => loadedWith(providers => providers.splice(0)))).to.match(/mine\.json.*providers/s))

  it('are refused when the file is missing or no JSON', () => {
    inFolder(folder => {
      expect(messageOf(() => loadProviders(join(folder, 'none.json')))).to.include('none.json')
      writeFileSync(join(folder, 'half.json'), providersText.slice(0, 100))
      expect(messageOf(() => loadProviders(join(folder, 'half.json')))).to.include('as JSON')
    })
  })

  it('link to every item by an URL from which its name and phase can be read back', () => {
    const item = fc.record({
      item_id: fc.nat(),
      market_hash_name: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }),
      phase: fc.constantFrom(null, ...PHASES),
    })
    fc.assert(
      fc.property(fc.constantFrom(...registry.all), item, (entry, target) => {
        const url = new URL(marketplaceUrl(entry, target))
        const inPath = decodeURIComponent(url.pathname.split('/').at(-1) ?? '')
        const name = url.searchParams.get('market_hash_name') ?? inPath
        // A path step of dots alone is resolved away by every URL parser; no item is named so.
        if (!/^\.{1,2}$/.test(target.market_hash_name)) expect(name).to.equal(target.market_hash_name)
        expect(url.searchParams.get('phase')).to.equal(target.phase)
        expect(url.href).to.match(/^https:\/\/provider-\d\d\.example\/[\x21-\x7e]+$/)
        expect(marketplaceUrl(entry, target)).to.not.match(/[!'()*]/)
      }),
    )
  })
})

describe('config: tiers', () => {
  const tiers = loadTiers()

  it('have the request limits of the specification', () => {
    for (const tier of TIERS)
      expect([tiers[tier].requests_per_minute, tiers[tier].requests_per_month]).to.deep.equal(REQUESTS[tier])
  })

  it('give the feeds, child keys and webhooks to quant alone, and fine candles to pro and quant', () => {
    expect(TIERS.map(tier => tiers[tier].feed_connections)).to.deep.equal([0, 0, 0, 2])
    expect(TIERS.map(tier => tiers[tier].child_keys)).to.deep.equal([0, 0, 0, 25])
    expect(TIERS.map(tier => tiers[tier].webhooks)).to.deep.equal([0, 0, 0, 20])
    expect(TIERS.map(tier => tiers[tier].candle_intervals.length)).to.deep.equal([1, 1, 3, 3])
    expect(TIERS.map(tier => tiers[tier].list_page_max)).to.deep.equal([100, 1000, 1000, 1000])
    expect(TIERS.map(tier => tiers[tier].prices_stream_starts_per_day)).to.deep.equal([0, 0, 50, 300])
    expect(TIERS.map(tier => tiers[tier].bids_stream_starts_per_day)).to.deep.equal([0, 25, 50, 300])
  })

  it('are refused when a higher tier may do less', () => {
    inFolder(folder => {
      const file = join(folder, 'tiers.json')
      writeFileSync(file, JSON.stringify({ ...tiers, pro: { ...tiers.pro, requests_per_minute: 30 } }))
      expect(messageOf(() => loadTiers(file)))
        .to.include('pro.requests_per_minute')
        .and.include("starter's 40")
    })
  })
})

describe('config: currencies, phases, markets', () => {
  it('hold every code of the currency list', () => {
    expect(loadCurrencies()).to.have.length(234).and.include.members(['BTC', 'CNY', 'EUR', 'GBP', 'RUB', 'USD', 'ZWL'])
  })

  it('parse the eight phases exactly, and nothing else', () => {
    for (const phase of PHASES) expect(parsePhase(phase)).to.equal(phase)
    for (const text of ['', 'phase 1', 'Phase 5', 'Ruby ', 'Doppler']) expect(parsePhase(text)).to.equal(undefined)
    expect(new Set(PHASES).size).to.equal(8)
  })

  const registry = loadProviders()
  for (const name of ['demo', 'full']) {
    it(`bring a market ${name} in which each provider has a feed for each side that it offers`, () => {
      const market = loadMarket(name)
      const keysOf = (side: string) => market.feeds.filter(feed => feed.side === side).map(feed => feed.provider)
      expect(keysOf('ask')).to.deep.equal(registry.askKeys)
      expect(keysOf('bid')).to.deep.equal(registry.bidKeys)
      expect(keysOf('sale')).to.deep.equal(registry.saleKeys)
      expect(existsSync(market.base ?? '')).to.equal(true)
    })
  }

  it('bring a full market of about 1.2 million asks', () => {
    const market = loadMarket('full')
    const asks = market.feeds
      .filter(feed => feed.side === 'ask')
      .map(feed => Number((feed.options as { coverage?: number }).coverage) * (market.items ?? 0))
    expect(asks.reduce((sum, count) => sum + count, 0)).to.be.within(1.15e6, 1.25e6)
  })
})

function set(providers: Provider[], index: number, members: Partial<Provider>): void {
  Object.assign(providers[index] as Provider, members)
}

function inFolder<T>(use: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), 'marketlog-config-'))
  try {
    return use(folder)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

function messageOf(act: () => unknown): string {
  try {
    act()
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
  return 'nothing was thrown'
}
