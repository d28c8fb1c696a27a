/**
 * From files to answers: refreshes that the command line publishes come out of REST and SSE as the log holds them.
 *
 * The expectation is an independent fold of the log's own records, so nothing here is copied from an answer.
 */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect } from 'chai'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { readRefreshes } from '#test/fixtures/recorded-refreshes.ts'
import { bookKey, type Expected, foldRefreshes } from '#test/harness/reference-fold.ts'
import { type SeededRandom, seededRandom } from '#test/harness/seeded-random.ts'
import { openSse, type SseClient } from '#test/harness/sse-client.ts'
import { modelCandles } from '#test/oracles/candle-model.ts'
import { refreshesOf } from './log-reader.ts'
import { type OwnPlatform, prepareOwnPlatform } from './own-platform.ts'

const LIMIT_MS = 240_000
const HOUR_MS = 3_600_000
const NAMES = 1_200
const PAGE = 1_000
const SAMPLE = 25
const INTERVALS_MS = { '5m': 300_000, '1h': HOUR_MS, '1d': 24 * HOUR_MS }

/** Half up, as the specification's minor units of a dollar. */
const cents = (micro: number): number => Math.floor((micro + 5_000) / 10_000)
const instant = (at: number): string => new Date(at).toISOString()

describe('recorded refreshes', function () {
  this.timeout(LIMIT_MS)
  let own: OwnPlatform
  let random: SeededRandom
  let expected: Expected
  let sample: number[]
  let feed: SseClient

  before(async () => {
    random = seededRandom('sample of items')
    own = await prepareOwnPlatform('empty')
    const { code, stderr } = await own.command(['up', '--detach'])
    expect(code, stderr).to.equal(0)
    const { base_url, keys } = own.platform()
    feed = await openSse(`${base_url}/v1/feed/prices?providers=provider_02`, { key: keys.quant })
    await feed.event(({ event }) => event === 'ready')
    const now = Math.floor(Date.now() / 1000) * 1000
    await publish('provider_02', 'ask', { from: now - 6 * HOUR_MS, factor: 1, currency: 'USD' })
    await publish('provider_05', 'ask', { from: now - 6 * HOUR_MS + 600_000, factor: 7.07, currency: 'CNY' })
    await publish('provider_02', 'bid', { from: now - 6 * HOUR_MS, factor: 0.8, currency: 'EUR' })
    expect((await own.command(['lag', '--wait', '--timeout', '120'])).code).to.equal(0)
    expected = foldRefreshes(await refreshesOf(own.platform()))
    sample = random.shuffle([...rows('ask', 'provider_02').keys()]).slice(0, SAMPLE)
  })

  after(async () => {
    feed?.close()
    await own?.command(['clean'])
    if (own) rmSync(own.runDir, { recursive: true, force: true })
  })

  /** Real refreshes, an hour and a half apart, at times that all views still keep; some names come and go. */
  async function publish(
    provider: string,
    side: 'ask' | 'bid',
    { from, factor, currency }: { from: number; factor: number; currency: string },
  ): Promise<void> {
    const dir = join(own.runDir, `${provider}-${side}`)
    mkdirSync(dir)
    for (const [at, refresh] of readRefreshes().slice(0, 4).entries()) {
      const names = Object.entries(refresh.prices).slice(at * 20, at * 20 + NAMES)
      const prices = Object.fromEntries(names.map(([name, price]) => [name, Math.max(1, Math.round(price * factor))]))
      const refreshed_at = instant(from + at * 1.5 * HOUR_MS)
      const file = gzipSync(JSON.stringify({ ...refresh, currency, refreshed_at, prices }))
      writeFileSync(join(dir, `${refreshed_at.replaceAll(':', '-')}.json.gz`), file)
    }
    const { code, stderr } = await own.command([
      'ingest',
      'recorded',
      '--provider',
      provider,
      '--side',
      side,
      '--dir',
      dir,
    ])
    expect(code, stderr).to.equal(0)
    expect(stderr).to.match(/published 4 refreshes with 4,\d{3} observations/)
  }

  const rows = (side: 'ask' | 'bid', provider: string) => expected.books.get(bookKey(side, provider)) ?? new Map()
  const asksOf = (itemId: number) =>
    expected.changes.filter(({ side, item_id }) => side === 'ask' && item_id === itemId)

  for (const [side, path, provider] of [
    ['ask', '/prices', 'provider_02'],
    ['ask', '/prices', 'provider_05'],
    ['bid', '/bids', 'provider_02'],
  ] as const) {
    it(`are listed whole as ${side}s of ${provider}`, async () => {
      const listed: Record<string, unknown>[] = []
      for (let offset = 0; offset === listed.length; offset += PAGE) {
        const { status, body } = await own.get(path, { providers: provider, limit: PAGE, offset })
        expect(status).to.equal(200)
        expect(body.pagination.total).to.equal(rows(side, provider).size)
        listed.push(...body.items)
      }
      const lastUpdated = instant(expected.refreshedAt.get(bookKey(side, provider)) ?? 0)
      const wanted = [...rows(side, provider)].map(([itemId, row]) =>
        [itemId, cents(row.price_micro_usd), row.quantity, instant(row.seen_at), lastUpdated].join(' '),
      )
      const [price, quantity] = side === 'ask' ? ['lowest_ask', 'quantity'] : ['highest_bid', 'num_bids']
      const got = listed.map(row => [row.item_id, row[price], row[quantity], row.timestamp, row.last_updated].join(' '))
      expect(got.length).to.be.greaterThan(PAGE)
      expect(got.sort()).to.deep.equal(wanted.sort())
    })
  }

  for (const [interval, intervalMs] of Object.entries(INTERVALS_MS)) {
    it(`make the candles of ${interval} that the rules ask for`, async () => {
      for (const item_id of sample) {
        const start = instant(Date.now() - 48 * HOUR_MS)
        const { status, body } = await own.get('/prices/candles', { item_id, interval, start })
        expect(status).to.equal(200)
        const wanted = modelCandles(asksOf(item_id) as BookChanged[], intervalMs).map(
          ({ t, o, h, l, c, v, q, ...rest }) => ({
            t: t / 1000,
            o: cents(o),
            h: cents(h),
            l: cents(l),
            c: cents(c),
            v,
            q,
            providers: { ...rest.providers },
          }),
        )
        expect(body.data, `item ${item_id}`).to.deep.equal(wanted)
      }
    })
  }

  it('make the history of an item, newest first', async () => {
    const names = await displayNames()
    for (const item_id of sample) {
      const { status, body } = await own.get('/prices/history', { item_id, limit: PAGE })
      expect(status).to.equal(200)
      const wanted = asksOf(item_id)
        .filter(({ change }) => change !== 'removed')
        .map(each =>
          [instant(each.seen_at), names.get(each.provider), cents(each.price_micro_usd ?? 0), each.quantity].join(' '),
        )
      const got = body.items.map((row: Record<string, unknown>) =>
        [row.time, row.provider, row.price, row.quantity].join(' '),
      )
      expect(got, `item ${item_id}`).to.deep.equal(wanted.sort().reverse())
    }
  })

  it('reach a feed that was open meanwhile: each change once, in the order of the refreshes', () => {
    const received = feed.events
      .filter(({ event }) => event === 'prices.changed')
      .flatMap(({ data }) => {
        const { provider, seen_at, items } = data as {
          provider: string
          seen_at: string
          items: Record<string, unknown>[]
        }
        return items.map(item => [seen_at, provider, item.item_id, item.change, item.price, item.qty].join(' '))
      })
    const wanted = expected.changes
      .filter(({ side, provider }) => side === 'ask' && provider === 'provider_02')
      .map(({ seen_at, provider, item_id, change, price_micro_usd: micro, quantity }) =>
        [instant(seen_at), provider, item_id, change, micro === null ? '' : cents(micro), quantity].join(' '),
      )
    expect(received.map(line => line.split(' ')[0])).to.deep.equal(wanted.map(line => line.split(' ')[0]))
    expect(received.sort()).to.deep.equal(wanted.sort())
    for (const change of ['added', 'updated', 'removed'])
      expect(received.some(line => line.includes(change))).to.equal(true)
  })

  async function displayNames(): Promise<Map<string, string>> {
    const { body } = await own.get('/providers')
    return new Map(Object.entries(body as Record<string, { key: string }>).map(([name, { key }]) => [key, name]))
  }
})
