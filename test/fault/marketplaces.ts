/**
 * Marketplaces that serve a seeded market over HTTP, some answers broken off or failed, and remember what left them whole. Every answer with
 * rows is an edition with a number: one more entry, whose name no catalog has, holds it, so that the log shows which edition it holds. From
 * `settle` on each marketplace repeats one sound refresh.
 */
import { createHash } from 'node:crypto'
import { createServer, type ServerResponse } from 'node:http'
import { type Feed, type MarketSize, openSeededMarket } from '#test/fixtures/seeded-market.ts'
import { eventually } from '#test/harness/eventually.ts'
import { listen } from '#test/harness/listen.ts'
import { type PublishedEntry, urlOf } from '#test/harness/published-records.ts'
import { bookKey } from '#test/harness/reference-fold.ts'
import type { SeededRandom } from '#test/harness/seeded-random.ts'

export interface ServedEdition {
  /** `<side>|<provider>`. */
  key: string
  edition: number
  digest: string
}

export interface ServedSale {
  provider: string
  sale_id: string
  itemId: number
  name: string
  price: number
  currency: string
  sold_at: number
}

export type Marketplaces = Awaited<ReturnType<typeof openMarketplaces>>

interface Marketplace {
  feed: Feed
  editions: number
  /** The last refresh and how often it was served; set when the market settles. */
  last: { body: string; edition: ServedEdition; times: number } | undefined
}

export function digestOf(
  entries: readonly Pick<PublishedEntry, 'name' | 'price' | 'quantity' | 'isRejected'>[],
): string {
  const hash = createHash('sha256')
  for (const { name, price, quantity, isRejected } of entries) {
    hash.update(isRejected || price <= 0 ? `${name} rejected\n` : `${name} ${price} ${quantity}\n`)
  }
  return hash.digest('base64url')
}

/** No two marketplaces share such a name: it would become an item. */
const EDITION = /^edition (\d+) of /

/** The number of an edition, if this is the name that holds it. */
export function editionOf(name: string): number | undefined {
  const [, number] = EDITION.exec(name) ?? []
  return number === undefined ? undefined : Number(number)
}

const SALES_PER_ANSWER = 3
/** So many are served before the market settles. */
const SALES_LEAST = 5 * SALES_PER_ANSWER
/** Sales are kept without end, so their time may lie anywhere. */
const FIRST_SALE = Date.UTC(2026, 0, 1)
const SALES_CURRENCY = 'EUR'

export async function openMarketplaces(random: SeededRandom, size: MarketSize, salesProvider: string) {
  const feeds = openSeededMarket(random, size)
  const byFeed = new Map<string, Marketplace>(
    feeds.map(feed => [bookKey(feed.side, feed.provider), { feed, editions: 0, last: undefined }]),
  )
  const served: ServedEdition[] = []
  const sales: ServedSale[] = []
  /** Entries of the last refresh that a catalog knows; what is sold is among them. */
  let listed: readonly PublishedEntry[] = []
  let isSettling = false

  const serve = (marketplace: Marketplace, response: ServerResponse): void => {
    const { feed } = marketplace
    if (marketplace.last !== undefined) {
      marketplace.last.times += 1
      send(response, marketplace.last.body)
      return
    }
    const refresh = isSettling ? feed.last() : feed.next()
    if (refresh.ending === 'failed') return void response.writeHead(500).end()
    const edition = ++marketplace.editions
    const body = bodyOf(feed.provider, refresh.currency, refresh.entries, edition)
    if (refresh.ending === 'cut') return void sendHalf(response, body)
    const sound = refresh.entries.filter(({ itemId, isRejected, price }) => itemId && !isRejected && price > 0)
    if (sound.length > 0) listed = sound
    const one = { key: bookKey(feed.side, feed.provider), edition, digest: digestOf(refresh.entries) }
    served.push(one)
    if (isSettling) marketplace.last = { body, edition: one, times: 1 }
    send(response, body)
  }
  const server = createServer((request, response) => {
    const [, side = '', provider = ''] = (request.url ?? '').split('/')
    const marketplace = byFeed.get(`${side}|${provider}`)
    if (marketplace !== undefined) serve(marketplace, response)
    else {
      if (!isSettling) sales.push(...newSales(random, listed, salesProvider, sales.length))
      send(response, JSON.stringify({ currency: SALES_CURRENCY, rows: sales }))
    }
  })
  const { port, close } = await listen(server)
  const base = `http://127.0.0.1:${port}`

  return {
    served: served as readonly ServedEdition[],
    sales: sales as readonly ServedSale[],
    items: feeds[0]?.items ?? [],
    /** The market file by which ingest polls all of them, as text. */
    marketFile: (intervalMs: number) => marketFile(base, [...byFeed.keys()], salesProvider, intervalMs),
    /** Resolves when every marketplace has served its last refresh and was asked once more: then the log holds it. */
    async settle(limitMs: number): Promise<void> {
      await eventually(() => sales.length >= SALES_LEAST, 'sales to be asked for', limitMs)
      isSettling = true
      const isServed = () => [...byFeed.values()].every(({ last }) => (last?.times ?? 0) > 1)
      await eventually(isServed, 'every marketplace to be asked for its last refresh', limitMs)
    },
    close,
  }
}

function sendHalf(response: ServerResponse, body: string): void {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) })
  response.write(body.slice(0, body.length / 2), () => response.destroy())
}

function newSales(
  random: SeededRandom,
  listed: readonly PublishedEntry[],
  provider: string,
  before: number,
): ServedSale[] {
  if (listed.length === 0) return []
  return Array.from({ length: SALES_PER_ANSWER }, (_, more) => {
    const { name, itemId = 0, price } = random.pick(listed)
    return {
      provider,
      sale_id: `sale-${before + more}`,
      itemId,
      name,
      price,
      currency: SALES_CURRENCY,
      sold_at: FIRST_SALE + (before + more) * 1_000,
    }
  })
}

function send(response: ServerResponse, body: string): void {
  response.writeHead(200, { 'content-type': 'application/json' }).end(body)
}

/** A page as {@link marketFile} maps it; a price that is none is written as a word. */
function bodyOf(provider: string, currency: string, entries: readonly PublishedEntry[], edition: number): string {
  const rows = entries.map(({ name, itemId, price, quantity, isRejected }) => ({
    name,
    price: isRejected ? 'on request' : price,
    n: quantity,
    url: urlOf(provider, itemId),
  }))
  rows.push({ name: `edition ${edition} of ${provider}`, price: 1, n: 1, url: null })
  return JSON.stringify({ currency, rows })
}

function marketFile(base: string, keys: readonly string[], salesProvider: string, intervalMs: number): string {
  const feed = (side: string, provider: string, mapping: string) => ({
    provider,
    side,
    connector: 'http-json',
    interval_ms: intervalMs,
    options: { url: `${base}/${side}/${provider}`, rows: 'rows', currency: 'currency', mapping, retries: 0 },
  })
  const offer = '$.{"market_hash_name": name, "price": price, "quantity": n, "url": url}'
  const sale = '$.{"market_hash_name": name, "price": price, "sold_at": sold_at, "sale_id": sale_id}'
  const offers = keys.map(key => key.split('|')).map(([side = '', provider = '']) => feed(side, provider, offer))
  return JSON.stringify({ name: 'marketplaces', feeds: [...offers, feed('sale', salesProvider, sale)] })
}
