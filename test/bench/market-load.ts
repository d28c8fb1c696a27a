/**
 * A market of given size that publishes refreshes through ingest's own path, with buy orders.
 *
 * Names and prices are those of a recorded refresh; every provider lists all of them in its own currency. Invariant: a refresh moves exactly
 * the asked share of its prices (rounded); every price is its first one or one hundredth more, whatever was moved before, so no refresh is
 * ever held back as a glitch; and refreshes of a provider are in time order.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { loadCatalog } from '#infra/config/catalog.ts'
import { loadMarket } from '#infra/config/market.ts'
import { loadProviders } from '#infra/config/providers.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { readRecorded } from '#services/ingest/connectors/recorded/client.ts'
import type { RawEntry } from '#services/ingest/source.ts'
import { openTestIngest } from '#test/fixtures/test-ingest.ts'
import type { TestPlatform } from '#test/harness/test-platform.ts'

export interface Listing {
  readonly provider: string
  readonly currency: string
  readonly names: readonly string[]
  /** Hundredths of `currency`, in the order of the names. */
  readonly prices: number[]
  readonly firstPrices: readonly number[]
  refreshes: number
  observedAt: number
}

export interface PublishedRound {
  /** Records, the completing ones included. */
  records: number
  moved: number
  /** `provider|refresh_id` of each refresh. */
  refreshes: string[]
}

export interface MarketSize {
  providers: number
  items: number
}

/** Names and prices of the recorded refresh that the simulated markets derive from, at most `items` of them. */
async function recordedEntries(items: number): Promise<[name: string, price: number][]> {
  const { base } = loadMarket('full')
  const read = await readRecorded(base ?? '', 'USD')
  if (read.kind === 'failed') throw new Error(read.detail)
  const entries: [string, number][] = []
  for (const { market_hash_name, price } of read.entries) {
    if (entries.length === items) break
    entries.push([String(market_hash_name), Math.max(1, Math.round(Number(price)))])
  }
  return entries
}

type MarketLoad = Awaited<ReturnType<typeof openMarketLoad>>

type Loaded = TestPlatform & { readonly kafka: KafkaConnection; readonly market: MarketLoad }

/** Opens a market in which nothing is listed yet. */
export async function openMarketLoad(kafka: KafkaConnection, size: MarketSize) {
  const ingest = await openTestIngest(kafka)
  const entries = await recordedEntries(size.items)
  const names = entries.map(([name]) => name)
  const list = (provider: string, currency: string, order: number, items: number): Listing => {
    const firstPrices = entries.slice(0, items).map(([, price], item) => price + 2 + ((item * 7 + order) % 5))
    return {
      provider,
      currency,
      names: items < names.length ? names.slice(0, items) : names,
      prices: [...firstPrices],
      firstPrices,
      refreshes: 0,
      observedAt: 0,
    }
  }
  const listings = loadProviders()
    .all.slice(0, size.providers)
    .map(({ key, default_currency }, order) => list(key, default_currency, order, names.length))
  return {
    listings,
    /** Makes listings of providers that the market does not have, of `items` items in US dollars each. */
    smallListings: (keys: readonly string[], items: number): Listing[] =>
      keys.map((key, order) => list(key, 'USD', order, items)),
    itemIds: itemIdsOf(names),
    publishRates: () => ingest.publishRates(),
    /** Publishes one refresh of each listing, one after the other; `share` of its prices move. */
    async publish(chosen: readonly Listing[], share: number): Promise<PublishedRound> {
      const round: PublishedRound = { records: 0, moved: 0, refreshes: [] }
      for (const listing of chosen) {
        round.moved += move(listing, share)
        listing.observedAt = Math.max(Date.now(), listing.observedAt + 1)
        const { provider, currency, observedAt } = listing
        const entries = entriesOf(listing.names, [...listing.prices])
        const { key } = await ingest.publish({ provider, side: 'ask', observedAt, currency, entries })
        round.records += listing.names.length + 1
        round.refreshes.push(key)
      }
      return round
    },
    close: () => ingest.close(),
  }
}

function itemIdsOf(names: readonly string[]): number[] {
  const ids = new Map(
    loadCatalog()
      .filter(({ phase }) => phase === null)
      .map(({ market_hash_name, item_id }) => [market_hash_name, item_id]),
  )
  return names.map(name => ids.get(name)).filter(id => id !== undefined)
}

/** Moves a share of a listing's prices up by one hundredth or back, another stretch of them each time; returns how many. */
export function move(listing: Pick<Listing, 'prices' | 'firstPrices' | 'refreshes'>, share: number): number {
  const { prices, firstPrices } = listing
  const moved = listing.refreshes === 0 ? 0 : Math.round(prices.length * share)
  const start = (listing.refreshes * moved) % Math.max(1, prices.length)
  for (let done = 0; done < moved; done++) {
    const item = (start + done) % prices.length
    const first = firstPrices[item] ?? 0
    prices[item] = prices[item] === first ? first + 1 : first
  }
  listing.refreshes += 1
  return moved
}

/** Walked when the publisher is ready for it, when the listing may have moved on: the prices must be a copy. */
function* entriesOf(names: readonly string[], prices: readonly number[]): Iterable<RawEntry> {
  for (const [item, name] of names.entries()) {
    yield { market_hash_name: name, price: prices[item], quantity: 1 + (item % 7) }
  }
}

/** Refreshes of listings, one after the other and again from the first. */
export interface RefreshPace {
  listings: readonly Listing[]
  everyMs: number
  /** Of the prices of a refresh those that move. */
  share: number
  /** Called when a refresh was sent, with its number. */
  onRefresh?(listing: Listing, refresh: number): void
}

/** Keys of providers with few items, so that many refreshes a second change many prices. */
export const smallKeys = (count: number): string[] =>
  Array.from({ length: count }, (_, each) => `small_${String(each + 1).padStart(2, '0')}`)

/** Writes the registry with the small providers in it; returns its path. */
export function writeProviders({ config }: TestPlatform, keys: readonly string[]): string {
  const { all } = loadProviders()
  const [template] = all
  const small = keys.map((key, each) => ({ ...template, key, display_name: key, code: `SMALL${each}` }))
  const path = join(config.stateDir, 'providers.json')
  writeFileSync(path, JSON.stringify({ providers: [...all, ...small] }))
  return path
}

/** Does work while refreshes go on; counts those that were acknowledged when it ended, and those that were due by then. */
export async function whileRefreshing<T>(
  { market }: Loaded,
  { listings, everyMs, share, onRefresh }: RefreshPace,
  work: () => Promise<T>,
): Promise<{ result: T; published: number; offered: number; refreshes: string[] }> {
  const sent: Promise<PublishedRound>[] = []
  let acknowledged = 0
  let isOver = false
  const startedAt = performance.now()
  const refreshing = (async () => {
    while (!isOver) {
      const early = startedAt + sent.length * everyMs - performance.now()
      if (early > 0) await pause(early)
      const listing = listings[sent.length % listings.length] as Listing
      const sending = market.publish([listing], share)
      const acknowledge = (): void => {
        acknowledged += 1
      }
      // What fails is thrown below.
      sending.then(acknowledge, () => undefined)
      onRefresh?.(listing, sent.length)
      sent.push(sending)
    }
  })()
  const end = async (): Promise<PublishedRound[]> => {
    isOver = true
    await refreshing
    return Promise.all(sent)
  }
  try {
    const result = await work()
    const [published, offered] = [acknowledged, (performance.now() - startedAt) / everyMs]
    return { result, published, offered, refreshes: (await end()).flatMap(({ refreshes }) => refreshes) }
  } finally {
    await end()
  }
}

/** Publishes bids of the providers that have some, around the cheapest asks, so that some hundred thousand pairs leave a profit; returns their refreshes. */
export async function publishBids(stage: Loaded, itemsEach: number): Promise<string[]> {
  const ingest = await openTestIngest(stage.kafka)
  const refreshes: string[] = []
  let count = 0
  const { bidKeys } = loadProviders()
  for (const listing of stage.market.listings.filter(({ provider }) => bidKeys.includes(provider))) {
    const { provider, currency, names, prices } = listing
    const observedAt = Date.now()
    const [usd, yuan] = [currency, 'CNY'].map(code => Number(ingest.rates.rateOf(code)?.text)) as [number, number]
    const entries = names.slice(0, itemsEach).map((market_hash_name, item) => ({
      market_hash_name,
      // The asks are the same number in every currency, so those in yuan are the cheapest: bids lie around them.
      price: Math.max(1, Math.floor(((prices[item] ?? 1) / yuan) * usd * (0.85 + ((item * 13 + count) % 31) / 100))),
      quantity: 1 + (item % 5),
    }))
    refreshes.push((await ingest.publish({ provider, side: 'bid', observedAt, currency, entries })).key)
    count += entries.length
  }
  await ingest.close()
  return refreshes
}
