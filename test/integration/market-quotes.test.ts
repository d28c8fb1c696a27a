import { expect } from 'chai'
import { loadProviders } from '#infra/config/providers.ts'
import { loadSupply } from '#infra/config/supply.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { rowRecord } from '#streams/book/changelog.ts'
import { followMarket } from '#streams/market-summary/follow-market.ts'
import { MarketQuotes } from '#streams/market-summary/market-quotes.ts'
import { computedLeaseKey } from '#streams/runner/computed-versions.ts'
import { openTestIngest } from '#test/fixtures/test-ingest.ts'
import { eventually } from '#test/harness/eventually.ts'
import { bookChangeRecord, changed } from '#test/harness/published-records.ts'
import { smallCatalog } from '#test/harness/small-catalog.ts'
import { useServers } from '#test/harness/use-servers.ts'

const ITEM = 7
const STAYING = 8
const GONE = 9
const KEYS = { ask: ['p'], bid: ['p'] }
/** The summary is computed every ten seconds, twice where the refresh came within the first. */
const SUMMARY_LIMIT_MS = 150_000

/** Of the answers of the market's routes, what the test looks at. */
interface Figures {
  items: { summary: { best_ask_usd: string | null } }[]
}

const removed: Partial<BookChanged> = { change: 'removed', price: null, price_micro_usd: null, quantity: 0 }

describe('the market in memory', () => {
  const platform = useServers()
  const stop = new AbortController()

  after(() => stop.abort())

  it('is the book as its changelog has it, and what changes after', async () => {
    const kafka = platform.connect('book')
    const publisher = await platform.openPublisher(kafka, 'book')
    const former = changed({ item_id: ITEM, price_micro_usd: 1, seen_at: 1 })
    const rows = [changed({ item_id: ITEM }), changed({ item_id: GONE }), changed({ item_id: GONE, ...removed })]
    await publisher.send([
      bookChangeRecord(kafka.codec, former),
      ...[...rows, changed({ item_id: STAYING })].map(row => rowRecord(kafka.codec, 0, row)),
    ])
    const market = new MarketQuotes(KEYS)
    await followMarket(market, { kafka, log: platform.log, signal: stop.signal })
    const quoted = () =>
      [...market.inOrder()].flatMap(slot => {
        const micro = market.sides.ask.microUsd[slot] as number
        return micro > 0 ? [[market.itemId(slot), micro]] : []
      })
    const { price_micro_usd: micro } = changed({})
    expect(quoted()).to.deep.equal([ITEM, STAYING].map(item => [item, micro]))
    await publisher.send([bookChangeRecord(kafka.codec, changed({ item_id: ITEM, ...removed }))])
    await eventually(() => quoted().length === 1, 'the change')
    expect(quoted()).to.deep.equal([[STAYING, micro]])
  })
})

describe('a market that fills', () => {
  const platform = useServers()

  it('is not there before it has prices, nor its index before an item has both sides; it used to be nulls and 0.00', async () => {
    const names = ['fx', 'provider-health', 'history', 'candles', 'sales', 'live-view', 'book'] as const
    const below = await platform.startRoles(names)
    const ingest = await openTestIngest(platform.connect('ingest'))
    await ingest.publishRates()
    await below.ready()
    await platform.drained(names)
    const roles = await platform.startRoles(['market-summary', 'api'])
    const headers = { authorization: `Bearer ${await platform.newKey()}` }
    const get = async (path: string) => {
      const answer = await fetch(`${roles.baseUrl}/v1/market/${path}`, { headers })
      return { status: answer.status, body: await answer.json() }
    }
    /** The first answer with figures. */
    const first = (path: string) =>
      eventually(
        async () => {
          const { status, body } = await get(path)
          return status === 200 && (body as { data: Figures }).data
        },
        path,
        SUMMARY_LIMIT_MS,
      )
    const redis = await platform.openRedis()
    await eventually(
      () => redis.exists(computedLeaseKey('market-summary', platform.namespace)),
      'a process that computes',
    )
    for (const path of ['items', 'indexes', 'arbitrage']) expect((await get(path)).status, path).to.equal(503)

    const provider = loadProviders().bidKeys[0] ?? expect.fail('no provider has bids')
    // Loaded once: for each item it held the roles of this process up until their requests timed out.
    const supply = loadSupply()
    const entries = smallCatalog()
      .filter(item => item.phase === null && supply.has(item.item_id))
      .map(item => ({ market_hash_name: item.market_hash_name, price: 1_000, quantity: 3 }))
    await ingest.publish({ provider, side: 'ask', observedAt: Date.now(), currency: 'USD', entries })
    const { items } = await first('items')
    expect(items.filter(({ summary }) => summary.best_ask_usd === '10.00')).not.to.deep.equal([])
    await first('arbitrage')
    expect((await get('indexes')).status).to.equal(503)
    await ingest.close()
    await roles.stop()
    await below.stop()
  })
})
