/**
 * From files to tables: what `marketlog ingest recorded` publishes is in the changes of the book, in Redis, in ClickHouse, in the
 * answers of REST and in a feed as a brute-force fold of the files has it, for every row. `make full` does it at full size: every
 * name and every item, 41 providers with some 1.2 million live asks, which takes minutes and gigabytes; PROVIDERS makes it smaller.
 *
 * Commands and roles are processes of their own. The files are read a second time here, with no code of the platform; the fold is
 * the harness's. Prices are those of the recorded refreshes; their times are moved to the last hours, which every table still keeps.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { expect } from 'chai'
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { loadCatalog } from '#infra/config/catalog.ts'
import { loadProviders } from '#infra/config/providers.ts'
import { DAY_MS, HOUR_MS, MINUTE_MS } from '#schemas/values/instant.ts'
import { openFeedListeners } from '#test/fixtures/feed-listeners.ts'
import { packagedRate } from '#test/fixtures/packaged-rate.ts'
import { type RecordedRefresh, readRefreshes } from '#test/fixtures/recorded-refreshes.ts'
import { eventually } from '#test/harness/eventually.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import { bookKey, type Expected, foldRefreshes, type GivenRefresh } from '#test/harness/reference-fold.ts'
import { writeRoomyTiers } from '#test/harness/roomy-tiers.ts'
import { runCommand } from '#test/harness/run-command.ts'
import type { SseClient } from '#test/harness/sse-client.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { partEntries, selectPartRows, selectStandingRows, standingEntries } from '#test/oracles/candle-tables.ts'

const STEP_MS = 25 * MINUTE_MS
const PAGE = 1_000
const IS_FULL = process.env.SIZE === 'full'
/** One name in ten, by its length. */
const SOME_NAMES = IS_FULL ? 1 : 10
const ITEMS_OF_A_QUERY = IS_FULL ? 500 : 2_000
const LIMIT_S = IS_FULL ? 1_200 : 120
const ROLES = 'fx book live-view candles history provider-health alert-triggers api feed'

interface RecordedFeed {
  provider: string
  side: 'ask' | 'bid'
  currency: string
  files: number
}
/** One feed in dollars, one at a rate, one of buy orders. */
const SOME_FEEDS: readonly RecordedFeed[] = [
  { provider: 'provider_02', side: 'ask', currency: 'USD', files: 5 },
  { provider: 'provider_05', side: 'ask', currency: 'CNY', files: 5 },
  { provider: 'provider_02', side: 'bid', currency: 'EUR', files: 3 },
]
const ALL_ASKS = loadProviders().all.slice(0, Number(process.env.PROVIDERS ?? 41))
const FEEDS: readonly RecordedFeed[] = IS_FULL
  ? ALL_ASKS.map(({ key, default_currency: currency }) => ({ provider: key, side: 'ask', currency, files: 3 }))
  : SOME_FEEDS

/** Half up, as the specification's minor units of a dollar. */
const cents = (micro: number): number => Math.floor((micro + 5_000) / 10_000)
const instant = (at: number): string => new Date(at).toISOString()

describe('files of recorded refreshes', function () {
  if (IS_FULL) this.timeout(LIMIT_S * 1_500)
  const platform = useServers({ catalog: 'whole' })
  const startMs = Math.floor(Date.now() / HOUR_MS) * HOUR_MS - DAY_MS
  let dir: string
  let expected: Expected
  let baseUrl: string
  let key: string
  let feed: SseClient

  const command = async (...words: string[]): Promise<{ stdout: string; stderr: string }> => {
    const { code, stdout, stderr } = await runCommand(words, { PATH: process.env.PATH, ...platform.environment })
    expect(code, `marketlog ${words.join(' ')}: ${stderr}`).to.equal(0)
    return { stdout, stderr }
  }

  before(async () => {
    dir = mkdtempSync(join(tmpdir(), 'marketlog-files-'))
    const roles = await platform.spawnRole(ROLES, { MARKETLOG_TIERS: writeRoomyTiers(dir) })
    key = JSON.parse((await command('keys', 'create', '--tier', 'quant')).stdout).key
    baseUrl = await roles.baseUrl()
    feed = await openFeedListeners(platform).listen(baseUrl, '/v1/feed/prices')
    await feed.event(({ event }) => event === 'ready')
    const refreshes = readRefreshes()
    const given: GivenRefresh[] = []
    for (const [rank, feed] of FEEDS.entries()) given.push(...(await publish(feed, rank, refreshes.slice(-feed.files))))
    await command('lag', '--wait', '--timeout', String(LIMIT_S))
    expected = foldRefreshes(given)
  })

  after(() => {
    feed?.close()
    rmSync(dir, { recursive: true, force: true })
  })

  async function publish(
    { provider, side, currency }: RecordedFeed,
    rank: number,
    refreshes: readonly RecordedRefresh[],
  ): Promise<GivenRefresh[]> {
    const folder = join(dir, `${provider}-${side}`)
    mkdirSync(folder)
    const given = refreshes.map(({ file: _, ...refresh }, at): GivenRefresh => {
      const listed = Object.entries(refresh.prices).filter(([name]) => name.length % SOME_NAMES === 0)
      // The recorded names only ever grow in number: one in fifty is not shown, another one each time.
      const prices = listed.filter((_, index) => (index + at) % 50 !== 0)
      const observedAt = startMs + at * STEP_MS + rank * MINUTE_MS
      const refreshed_at = instant(observedAt)
      const name = `${refreshed_at.replaceAll(':', '-')}.json.gz`
      writeFileSync(
        join(folder, name),
        gzipSync(JSON.stringify({ ...refresh, currency, refreshed_at, prices: Object.fromEntries(prices) })),
      )
      return {
        side,
        provider,
        observedAt,
        currency,
        usdRate: packagedRate(currency),
        completed: true,
        refreshId: refreshed_at.replace(/[-:.]/g, ''),
        entries: prices.map(([each, price]) => ({ itemId: idOf(each), price, quantity: 1 })),
      }
    })
    const { stderr } = await command('ingest', 'recorded', '--provider', provider, '--side', side, '--dir', folder)
    const observations = given.reduce((sum, { entries }) => sum + entries.length, 0)
    expect(stderr).to.include(
      `published ${given.length} refreshes with ${observations.toLocaleString('en')} observations\n`,
    )
    return given
  }

  const asks = (): Expected['changes'] => expected.changes.filter(({ side }) => side === 'ask')
  const books = () =>
    FEEDS.map(({ provider, side }) => ({
      provider,
      side,
      rows: expected.books.get(bookKey(side, provider)) ?? new Map(),
      refreshedAt: expected.refreshedAt.get(bookKey(side, provider)) ?? 0,
    }))

  it('hold enough for a comparison: every feed is listed, and rows came, changed and went', () => {
    for (const { provider, side, rows } of books()) expect(rows.size, `${side} ${provider}`).to.be.greaterThan(2 * PAGE)
    for (const change of ['added', 'updated', 'removed']) {
      expect(expected.changes.filter(each => each.change === change).length, change).to.be.greaterThan(100)
    }
    const applied = expected.verdicts.filter(({ verdict }) => verdict === 'applied')
    expect(applied.length).to.equal(expected.verdicts.length)
  })

  if (!IS_FULL)
    it('are the changes in the log, of each row in order', async () => {
      const rowsOf = (changes: Expected['changes']) =>
        [...Map.groupBy(changes, each => `${bookKey(each.side, each.provider)}|${each.item_id}`)].map(([row, own]) =>
          [row, ...own.flatMap(each => [each.change, each.seen_at, each.price, each.previous_micro_usd])].join(' '),
        )
      const logged = await readTopic(platform.connect(), 'bookChanges')
      expectSame(
        rowsOf(logged.filter(({ event }) => event === 'BookChanged').map(({ value }) => value)),
        rowsOf(expected.changes),
      )
    })

  it('are the changes of ClickHouse, each once, and the asks on which its candles end', async () => {
    const changesOf = Map.groupBy(asks(), ({ item_id }) => item_id)
    const items = [...changesOf.keys()].sort((a, b) => a - b)
    const tables = platform.openTables()
    for (let from = 0; from < items.length; from += ITEMS_OF_A_QUERY) {
      await compareTables(tables, items.slice(from, from + ITEMS_OF_A_QUERY), changesOf)
    }
    const [count] = await tables.rows<{ n: number }>(
      `SELECT uniqExact(item_id) AS n FROM ${tables.database}.changes WHERE side = 'ask'`,
    )
    expect(count?.n).to.equal(items.length)
  })

  for (const { provider, side } of FEEDS) {
    it(`are the ${side}s of ${provider} that REST lists`, async () => {
      const book = books().find(each => each.provider === provider && each.side === side)
      const rows: Record<string, unknown>[] = []
      for (let offset = 0; offset === rows.length; offset += PAGE) {
        const body = await get(side === 'ask' ? '/prices' : '/bids', { providers: provider, limit: PAGE, offset })
        expect(body.pagination.total).to.equal(book?.rows.size)
        rows.push(...body.items)
      }
      const [price, quantity] = side === 'ask' ? ['lowest_ask', 'quantity'] : ['highest_bid', 'num_bids']
      expectSame(
        rows.map(row => [row.item_id, row[price], row[quantity], row.timestamp, row.last_updated].join(' ')),
        [...(book?.rows ?? [])].map(([itemId, row]) =>
          [
            ...[itemId, cents(row.price_micro_usd), row.quantity, instant(row.seen_at)],
            instant(book?.refreshedAt ?? 0),
          ].join(' '),
        ),
      )
    })
  }

  it('reach a feed that was open meanwhile, each change once, in the order of the refreshes of each provider', async () => {
    interface Changed {
      provider: string
      seen_at: string
      items: Record<string, unknown>[]
    }
    const received = () =>
      feed.events.flatMap(({ event, data }) => {
        if (event !== 'prices.changed') return []
        const { provider, seen_at, items } = data as Changed
        return items.map(one => [provider, seen_at, one.item_id, one.change, one.price, one.qty].join(' '))
      })
    await eventually(() => received().length >= asks().length, 'the last event')
    const wanted = asks().map(({ provider, seen_at, item_id, change, price_micro_usd: micro, quantity }) =>
      [provider, instant(seen_at), item_id, change, micro === null ? '' : cents(micro), quantity].join(' '),
    )
    expectSame(received(), wanted)
    for (const [provider, lines] of Map.groupBy(received(), line => line.split(' ')[0])) {
      const times = lines.map(line => line.split(' ')[1])
      expect(times, `times of ${provider}`).to.deep.equal(times.toSorted())
    }
  })

  // biome-ignore lint/suspicious/noExplicitAny: each test narrows the answer by what it asserts.
  async function get(path: string, query: Record<string, string | number>): Promise<any> {
    const parameters = new URLSearchParams(
      Object.fromEntries(Object.entries(query).map(([name, value]) => [name, String(value)])),
    )
    const response = await fetch(`${baseUrl}/v1${path}?${parameters}`, { headers: { authorization: `Bearer ${key}` } })
    const body = await response.json()
    expect(response.status, JSON.stringify(body).slice(0, 300)).to.equal(200)
    return body
  }
})

const itemIds = new Map(
  loadCatalog()
    .filter(({ phase }) => phase === null)
    .map(item => [item.market_hash_name, item.item_id]),
)
const idOf = (name: string): number | undefined => itemIds.get(name)

async function compareTables(
  tables: ClickhouseReader,
  items: readonly number[],
  changesOf: ReadonlyMap<number, Expected['changes']>,
): Promise<void> {
  const lineOf = (each: Record<string, unknown> | Expected['changes'][number]): string =>
    [
      ...[each.item_id, each.provider, each.seen_at, each.change, each.price, each.price_micro_usd],
      ...[each.quantity, each.previous_quantity],
    ].join(' ')
  const wanted = items.flatMap(item => changesOf.get(item) ?? [])
  const stored = await tables.rows<Record<string, unknown>>(
    `SELECT item_id, provider, toUnixTimestamp64Milli(seen_at) AS seen_at, toString(change) AS change, price,
      price_micro_usd, quantity, previous_quantity FROM ${tables.database}.changes FINAL
    WHERE side = 'ask' AND item_id IN {items:Array(UInt32)}`,
    { items },
  )
  expectSame(stored.map(lineOf), wanted.map(lineOf))
  const ofItems = `item_id IN (${items})`
  for (const [statement, keys, entries] of [
    [selectPartRows(tables.database, ofItems), 4, partEntries(wanted)],
    [selectStandingRows(tables.database, ofItems), 2, standingEntries(wanted)],
  ] as const) {
    const rows = (await tables.rows<Record<string, unknown>>(statement)).map(row => Object.values(row))
    expectSame(
      rows.map(row => [row.slice(0, keys).join('|'), ...row.slice(keys)].join(' ')),
      entries.map(({ key, what }) => `${key} ${what}`),
    )
  }
}

/** Compares lines in any order; names the first that differs, since a diff of thousands shows nothing. */
function expectSame(found: string[], wanted: string[]): void {
  const [one, other] = [found.toSorted(), wanted.toSorted()]
  const at = one.findIndex((line, index) => line !== other[index])
  expect({ found: one[at], wanted: other[at], count: one.length }).to.deep.equal({
    found: undefined,
    wanted: at === -1 ? undefined : other[at],
    count: other.length,
  })
}
