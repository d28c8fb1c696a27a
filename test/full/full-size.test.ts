/**
 * All 41 providers at full size, about 1.2 million live asks: what REST, ClickHouse and SSE say is
 * what an independent fold of the refresh files says, for every row.
 *
 * Roles run as processes of their own; the files go in through the shipped command, provider after
 * provider, so the log holds them far out of time order. PROVIDERS and REFRESHES make it smaller.
 * Run by `make full`; it takes minutes and gigabytes, so the test command does not include it.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { openReader } from '#infra/clickhouse/clickhouse.ts'
import { loadCatalog } from '#infra/config/catalog.ts'
import { loadProviders } from '#infra/config/providers.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { BookChanged } from '#schemas/events/book-changed.ts'
import { packagedRate } from '#test/fixtures/packaged-rate.ts'
import { readRefreshes } from '#test/fixtures/recorded-refreshes.ts'
import { eventually } from '#test/harness/eventually.ts'
import { bookKey, type Expected, foldRefreshes, type GivenRefresh } from '#test/harness/reference-fold.ts'
import { writeRoomyTiers } from '#test/harness/roomy-tiers.ts'
import { runCommand } from '#test/harness/run-command.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import type { SpawnedRole } from '#test/harness/spawn-role.ts'
import { openSse, type SseClient } from '#test/harness/sse-client.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { modelCandles } from '#test/oracles/candle-model.ts'
import { partEntries, selectPartRows, selectStandingRows, standingEntries } from '#test/oracles/candle-tables.ts'
import { type Feed, writeFeed } from './market-files.ts'

const LIMIT_MS = 30 * 60_000
const HOUR_MS = 3_600_000
const PROVIDERS = Number(process.env.PROVIDERS ?? 41)
const REFRESHES = Number(process.env.REFRESHES ?? 3)
/** Items whose history is also asked for over HTTP; all of them are compared in the table. */
const ASKED_OVER_HTTP = 100
const INTERVALS = { '5m': 300_000, '1h': 3_600_000, '1d': 86_400_000 }
const AT_ONCE = 16
/** Items of one query to a table: a query each would take hours. */
const ITEMS_OF_A_RANGE = 500

const cents = (micro: number): number => Math.floor((micro + 5_000) / 10_000)
const instant = (at: number): string => new Date(at).toISOString()

/** A stored or expected change as a text. */
const storedLine = (each: Record<string, unknown> | Expected['changes'][number]): string =>
  [
    each.item_id,
    each.provider,
    each.seen_at,
    each.change,
    each.price,
    each.price_micro_usd,
    each.quantity,
    each.previous_quantity,
  ].join(' ')

/** Runs work on many values, some at once. */
async function forAll<T>(values: readonly T[], work: (value: T) => Promise<void>): Promise<void> {
  const waiting = values[Symbol.iterator]()
  const worker = async (): Promise<void> => {
    for (const value of waiting) await work(value)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, worker))
}

describe(`${PROVIDERS} providers at full size`, function () {
  this.timeout(LIMIT_MS)
  const platform = useServers({ catalog: 'whole' })
  let dir: string
  let expected: Expected
  let feed: SseClient
  let api: SpawnedRole
  let baseUrl: string
  let key: string
  let itemIds: number[]
  let changesOf: Map<number, Expected['changes']>
  const startMs = Math.floor(Date.now() / HOUR_MS) * HOUR_MS - 5 * HOUR_MS

  before(async function () {
    this.timeout(LIMIT_MS)
    dir = mkdtempSync(join(tmpdir(), 'marketlog-full-'))
    for (const role of ['fx', 'book', 'live-view', 'candles', 'history', 'provider-health'])
      await platform.spawnRole(role)
    api = await platform.spawnRole('api', { MARKETLOG_TIERS: writeRoomyTiers(dir) })
    const gateway = await platform.spawnRole('feed')
    key = await platform.newKey()
    baseUrl = await api.baseUrl()
    feed = await openSse(`${await gateway.baseUrl()}/v1/feed/prices`, { key })
    await feed.event(({ event }) => event === 'ready')
    expected = foldRefreshes(await publishMarket())
    changesOf = Map.groupBy(expected.changes, ({ item_id }) => item_id)
    itemIds = [...changesOf.keys()].sort((a, b) => a - b)
    await allViewsCaughtUp()
    const rows = [...expected.books.values()].reduce((sum, book) => sum + book.size, 0)
    console.log(`      ${rows} live asks of ${itemIds.length} items, ${expected.changes.length} changes expected`)
  })

  after(() => {
    feed?.close()
    rmSync(dir, { recursive: true, force: true })
  })

  async function publishMarket(): Promise<GivenRefresh[]> {
    const ids = new Map(
      loadCatalog()
        .filter(({ phase }) => phase === null)
        .map(item => [item.market_hash_name, item.item_id]),
    )
    const feeds: Feed[] = loadProviders()
      .all.slice(0, PROVIDERS)
      .map(({ key: provider, default_currency: currency }) => ({ provider, currency, usdRate: packagedRate(currency) }))
    const plan = {
      feeds,
      refreshes: readRefreshes().slice(0, REFRESHES),
      startMs,
      stepMs: 1.5 * HOUR_MS,
      itemOf: (name: string) => ids.get(name),
    }
    const given: GivenRefresh[] = []
    for (const [rank, each] of feeds.entries()) {
      const folder = join(dir, each.provider)
      given.push(...writeFeed(plan, each, rank, folder))
      const words = ['ingest', 'recorded', '--provider', each.provider, '--dir', folder]
      const { code, stderr } = await runCommand(words, { PATH: process.env.PATH, ...platform.environment })
      expect(code, stderr).to.equal(0)
    }
    return given
  }

  async function allViewsCaughtUp(): Promise<void> {
    const wanted = expected.changes.length
    const reader = openReader(platform.config.servers.clickhouse, {
      database: databaseName(platform.namespace),
      name: 'full',
    })
    const hasAll = async (): Promise<boolean> => {
      const [count] = await reader.rows<{ n: number }>(
        `SELECT uniqExact(partition, offset) AS n FROM ${reader.database}.changes`,
      )
      const [candles] = await reader.rows<{ n: number }>(
        `SELECT count() AS n FROM (SELECT item_id, provider FROM ${reader.database}.candle_standing GROUP BY 1, 2)`,
      )
      const keys = new Set(expected.changes.map(({ item_id, provider }) => `${item_id} ${provider}`)).size
      return count?.n === wanted && candles?.n === keys
    }
    await eventually(hasAll, 'all changes in ClickHouse', 15 * 60_000)
    const last = [...expected.refreshedAt].at(-1)
    await eventually(
      async () => {
        const { status, body } = await get('/prices', { providers: last?.[0].split('|')[1] ?? '', limit: 1 })
        return status === 200 && body.items[0]?.last_updated === instant(last?.[1] ?? 0)
      },
      'the last refresh in the live view',
      5 * 60_000,
    )
    await reader.close()
  }

  // biome-ignore lint/suspicious/noExplicitAny: each test narrows the answer by what it asserts.
  async function get(path: string, query: Record<string, string | number>): Promise<{ status: number; body: any }> {
    const parameters = new URLSearchParams(
      Object.fromEntries(Object.entries(query).map(([name, value]) => [name, String(value)])),
    )
    const response = await fetch(`${baseUrl}/v1${path}?${parameters}`, { headers: { authorization: `Bearer ${key}` } })
    return { status: response.status, body: await response.json() }
  }

  it('GET /prices answers every item as the fold has it', async () => {
    const wanted = new Map<number, string[]>()
    for (const [book, rows] of expected.books) {
      const provider = book.split('|')[1] ?? ''
      const updated = instant(expected.refreshedAt.get(bookKey('ask', provider)) ?? 0)
      for (const [itemId, row] of rows) {
        const line = [provider, cents(row.price_micro_usd), row.quantity, instant(row.seen_at), updated].join(' ')
        wanted.set(itemId, [...(wanted.get(itemId) ?? []), line])
      }
    }
    let compared = 0
    await forAll(itemIds, async item_id => {
      const { status, body } = await get('/prices', { item_id, limit: 1000 })
      expect(status, `item ${item_id}`).to.equal(200)
      const got = body.items.map((row: Record<string, unknown>) =>
        [row.provider, row.lowest_ask, row.quantity, row.timestamp, row.last_updated].join(' '),
      )
      expect(got.sort(), `item ${item_id}`).to.deep.equal((wanted.get(item_id) ?? []).sort())
      compared += got.length
    })
    console.log(`      ${compared} rows compared`)
    expect(compared).to.be.greaterThan(PROVIDERS * 1_000)
  })

  it('the tables of candles hold what each provider asked in each bucket, for every item', async () => {
    const reader = openReader(platform.config.servers.clickhouse, {
      database: databaseName(platform.namespace),
      name: 'full',
    })
    let compared = 0
    for (const items of ranges()) {
      const asks = items.flatMap(item_id => changesOf.get(item_id) ?? [])
      const ofItems = `item_id IN (${items})`
      for (const [statement, keys, wanted] of [
        [selectPartRows(reader.database, ofItems), 4, partEntries(asks)],
        [selectStandingRows(reader.database, ofItems), 2, standingEntries(asks)],
      ] as const) {
        const rows = (await reader.rows<Record<string, unknown>>(statement)).map(row => Object.values(row))
        const got = rows.map(row => [row.slice(0, keys).join('|'), ...row.slice(keys)].join(' ')).sort()
        const lines = wanted.map(({ key, what }) => `${key} ${what}`).sort()
        expect(got.length, `from item ${items[0]}`).to.equal(lines.length)
        expect(got.findIndex((line, at) => line !== lines[at])).to.equal(-1)
        compared += got.length
      }
    }
    await reader.close()
    console.log(`      ${compared} rows of candles compared`)
  })

  for (const [interval, intervalMs] of Object.entries(INTERVALS)) {
    it(`GET /prices/candles of ${interval} answers what a fold moment by moment has, for every item`, async () => {
      let candles = 0
      await forAll(itemIds, async item_id => {
        const { status, body } = await get('/prices/candles', {
          item_id,
          interval,
          start: instant(startMs - 24 * HOUR_MS),
        })
        expect(status, `item ${item_id} ${interval}`).to.equal(200)
        const model = modelCandles((changesOf.get(item_id) ?? []) as BookChanged[], intervalMs)
        const wanted = model.map(({ t, o, h, l, c, ...rest }) => ({
          t: t / 1000,
          o: cents(o),
          h: cents(h),
          l: cents(l),
          c: cents(c),
          ...rest,
        }))
        expect(body.data, `item ${item_id} ${interval}`).to.deep.equal(wanted)
        candles += wanted.length
      })
      console.log(`      ${candles} candles compared`)
    })
  }

  it('GET /prices/history says the same over HTTP', async () => {
    const sample = seededRandom('items asked over HTTP').shuffle(itemIds).slice(0, ASKED_OVER_HTTP)
    const names = new Map(loadProviders().all.map(({ key: provider, display_name }) => [provider, display_name]))
    await forAll(sample, async item_id => {
      const { body } = await get('/prices/history', { item_id, limit: 1000 })
      const wanted = (changesOf.get(item_id) ?? [])
        .filter(({ change }) => change !== 'removed')
        .map(each =>
          [instant(each.seen_at), names.get(each.provider), cents(each.price_micro_usd ?? 0), each.quantity].join(' '),
        )
      const got = body.items.map((row: Record<string, unknown>) =>
        [row.time, row.provider, row.price, row.quantity].join(' '),
      )
      expect(got.sort(), `item ${item_id}`).to.deep.equal(wanted.sort())
    })
  })

  it('the stored history holds every change once', async () => {
    const reader = openReader(platform.config.servers.clickhouse, {
      database: databaseName(platform.namespace),
      name: 'full',
    })
    let compared = 0
    for (const items of ranges()) {
      const rows = await reader.rows<Record<string, unknown>>(
        `SELECT item_id, provider, toUnixTimestamp64Milli(seen_at) AS seen_at, toString(change) AS change, price,
        price_micro_usd, quantity, previous_quantity FROM ${reader.database}.changes FINAL
        WHERE item_id IN {items:Array(UInt32)}`,
        { items },
      )
      const got = rows.map(storedLine).sort()
      const wanted = items
        .flatMap(item_id => changesOf.get(item_id) ?? [])
        .map(storedLine)
        .sort()
      expect(got.length, `from item ${items[0]}`).to.equal(wanted.length)
      expect(got.findIndex((line, at) => line !== wanted[at])).to.equal(-1)
      compared += got.length
    }
    console.log(`      ${compared} stored changes compared`)
    await reader.close()
  })

  it('a feed that was open meanwhile delivered each change once', async () => {
    const isComplete = (): boolean => receivedCount() >= expected.changes.length
    await eventually(isComplete, 'the last event', 120_000)
    expect(feed.hasEnded()).to.equal(false)
    const wanted = expected.changes.map(({ provider, seen_at, item_id, change, price_micro_usd: micro, quantity }) =>
      [provider, instant(seen_at), item_id, change, micro === null ? '' : cents(micro), quantity].join(' '),
    )
    const got = received().sort()
    wanted.sort()
    expect(got.length).to.equal(wanted.length)
    expect(got.findIndex((line, at) => line !== wanted[at])).to.equal(-1)
  })

  function* ranges(): Generator<number[]> {
    for (let from = 0; from < itemIds.length; from += ITEMS_OF_A_RANGE) {
      yield itemIds.slice(from, from + ITEMS_OF_A_RANGE)
    }
  }

  const receivedCount = (): number =>
    feed.events.reduce((sum, { data }) => sum + ((data as { items?: unknown[] }).items?.length ?? 0), 0)

  function received(): string[] {
    return feed.events
      .filter(({ event }) => event === 'prices.changed')
      .flatMap(({ data }) => {
        const { provider, seen_at, items } = data as {
          provider: string
          seen_at: string
          items: Record<string, unknown>[]
        }
        return items.map(item => [provider, seen_at, item.item_id, item.change, item.price, item.qty].join(' '))
      })
  }
})
