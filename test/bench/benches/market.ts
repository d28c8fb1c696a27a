/**
 * Market analytics at full size: arbitrage over 1.2 million asks and 0.3 million bids with 8 readers while refreshes run, all market
 * items, one item, indicators.
 *
 * Roles share processes as on one machine; ages are those of the quotes. Reads of one item go one after the other.
 */
import { DAY_MS } from '#schemas/values/instant.ts'
import { ARBITRAGE_AGE_LIMIT_MS } from '#streams/market-summary/arbitrage-amounts.ts'
import { eventually } from '#test/harness/eventually.ts'
import type { Reading, ReadingSeen } from '../baselines/http-clients.ts'
import type { Bench, BenchContext } from '../bench.ts'
import { askAs } from '../bench-platform.ts'
import { storeCandles } from '../costly-stage.ts'
import { type Entry, entryOf, percentile, requireOffered, requireSome } from '../entry.ts'
import { publishBids, whileRefreshing } from '../market-load.ts'
import type { Stage } from '../stage.ts'
import { atRest } from '../whole-platform.ts'

const BIDS_EACH = 25_000
const ROWS_CHECKED = 100_000
const PAGE = 1_000
const LOAD_MS = 30_000
const REFRESH_EVERY_MS = 2_000
const REFRESH_SHARE = 0.02
const READS = 400
const WARM_UPS = 40
const YEAR_ITEMS = 40
const YEAR_DAYS = 365
const LIMIT_MS = 300_000

export const market: Bench = {
  name: 'market',
  ownStage: true,
  about: 'arbitrage over the whole market and all market items',
  run: context => measure(context, async asked => [...(await measureArbitrage(asked)), ...(await measureItems(asked))]),
}

export const marketReads: Bench = {
  name: 'market-reads',
  ownStage: true,
  about: 'one market item, and indicators of a year',
  run: context => measure(context, measureSingles),
}

interface Asked {
  context: BenchContext
  stage: Stage
  read(paths: readonly string[], until: Reading['until'], more?: Partial<Reading>): Promise<ReadingSeen>
  json<T>(path: string): Promise<T>
}

async function measure(context: BenchContext, run: (asked: Asked) => Promise<Entry[]>): Promise<Entry[]> {
  const stage = await context.stage()
  const key = await stage.newKey()
  const baseUrl = await startRoles(context, stage)
  const readers = context.baseline('http-clients')
  const json = async <T>(path: string): Promise<T> => JSON.parse(await askAs(key, baseUrl + path)) as T
  context.say('waiting for the views of the market')
  for (const path of ['/market/items', '/market/arbitrage'])
    await eventually(() => json(path).then(() => true), path, LIMIT_MS)
  const read: Asked['read'] = (paths, until, { headers, ...more } = {}) =>
    readers.ask('read', {
      baseUrl,
      until,
      method: 'GET',
      readers: 1,
      questions: paths.map(path => ({ path })),
      ...more,
      headers: { authorization: `Bearer ${key}`, ...headers },
    } satisfies Reading)
  return run({ context, stage, read, json })
}

async function startRoles(context: BenchContext, stage: Stage): Promise<string> {
  context.say('starting the roles')
  await stage.start('live', ['fx', 'provider-health', 'live-view'])
  // The summary reads whole tables alone.
  await stage.start('tables', ['history', 'candles', 'sales'])
  await stage.start('market-summary', ['market-summary'])
  const { refreshes } = await stage.market.publish(stage.market.listings, 0.01)
  const bids = await publishBids(stage, context.isQuick ? 1_000 : BIDS_EACH)
  await stage.judged.applied([...refreshes, ...bids], LIMIT_MS)
  context.say('the views are catching up')
  await stage.caughtUp(['live-view', 'history', 'candles'])
  const api = await stage.start('api', ['api'])
  await api.ready(LIMIT_MS)
  return api.url
}

async function measureArbitrage({ context, stage, read, json }: Asked): Promise<Entry[]> {
  const paths = [0, 100, 5_000, 60_000].flatMap(offset => [
    `/market/arbitrage?offset=${offset}`,
    `/market/arbitrage?min_spread_pct=5&offset=${offset}&providers_sell=provider_03&providers_sell=provider_12`,
    `/market/arbitrage?limit=1000&offset=${offset}&providers_buy=provider_02`,
  ])
  context.say('arbitrage while refreshes run')
  const pace = { listings: stage.market.listings, everyMs: REFRESH_EVERY_MS, share: REFRESH_SHARE }
  const until = { ms: context.isQuick ? LOAD_MS / 6 : LOAD_MS }
  const { result, published, offered, refreshes } = await whileRefreshing(stage, pace, async () => {
    const { wholeMs } = await read(paths, until, { readers: 8 })
    return { wholeMs, ...(await checkAges(context, json)) }
  })
  requireOffered('refreshes while arbitrage was read', published, offered)
  await stage.judged.applied(refreshes, LIMIT_MS)
  requireSome('rows whose ages were checked', result.rows)
  return [
    entryOf('arbitrage, 8 readers while refreshes run: p99', 'ms', percentile(result.wholeMs, 0.99)),
    entryOf('arbitrage: rows whose older leg breaks the age limit', 'rows', result.broken),
  ]
}

interface CheckedRow {
  buy_last_updated: string
  sell_last_updated: string
}

/** Pages through the snapshot and counts the rows whose older leg was too old when the page was asked for. */
async function checkAges({ isQuick, signal }: BenchContext, json: Asked['json']) {
  const checked = { rows: 0, broken: 0 }
  for (let offset = 0; offset < (isQuick ? ROWS_CHECKED / 100 : ROWS_CHECKED); offset += PAGE) {
    signal.throwIfAborted()
    const askedAt = Date.now()
    const path = `/market/arbitrage?limit=${PAGE}&offset=${offset}`
    for (const row of (await json<{ data: { items: CheckedRow[] } }>(path)).data.items) {
      const older = Math.min(Date.parse(row.buy_last_updated), Date.parse(row.sell_last_updated))
      checked.rows += 1
      if (askedAt - older > ARBITRAGE_AGE_LIMIT_MS) checked.broken += 1
    }
  }
  return checked
}

async function measureItems({ context, read, json }: Asked): Promise<Entry[]> {
  context.say('all market items')
  requireSome('market items', (await json<{ data: { items: unknown[] } }>('/market/items')).data.items.length)
  const entries: Entry[] = []
  for (const [label, coding] of [['plain', 'identity'] as const, ['gzip', 'gzip'] as const]) {
    const until = { answers: context.isQuick ? 5 : 40 }
    const { firstByteMs } = await read(['/market/items'], until, { headers: { 'accept-encoding': coding } })
    entries.push(entryOf(`all market items, ${label}: first byte p99`, 'ms', percentile(firstByteMs, 0.99)))
  }
  return entries
}

async function measureSingles({ context, stage, read }: Asked): Promise<Entry[]> {
  const yearItems = stage.market.itemIds.slice(0, context.isQuick ? 4 : YEAR_ITEMS)
  context.say('storing a year of candles')
  await storeCandles(stage.openTables(), yearItems, { ms: DAY_MS, count: YEAR_DAYS })
  await atRest(context, stage)
  const single = async (name: string, paths: string[]): Promise<Entry> => {
    context.say(name)
    // The first reads load what is kept: the table's index, the compiled query, the process's own code.
    await read(paths, { answers: WARM_UPS })
    const { wholeMs } = await read(paths, { answers: context.isQuick ? WARM_UPS : READS })
    return entryOf(`${name}: p99`, 'ms', percentile(wholeMs, 0.99))
  }
  const spread = stage.market.itemIds.filter((_, at) => at % 50 === 0)
  return [
    await single(
      'one market item',
      spread.map(id => `/market/items/${id}`),
    ),
    await single(
      'indicators of a year of 41 providers',
      yearItems.map(id => `/market/indicators?item_id=${id}`),
    ),
  ]
}
