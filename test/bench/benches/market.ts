/**
 * Market analytics at full size, each answer beside the bare read that it rests on: arbitrage over 1.2 million asks and 0.3
 * million bids with 8 readers while refreshes run, all market items, one item, indicators, a chart of a year.
 *
 * Roles share processes as on one machine; ages are those of the quotes. Reads of one item go one after the other, in turns with
 * the bare query.
 */
import { openReader } from '#infra/clickhouse/clickhouse.ts'
import { closeRedis, openRedis } from '#infra/redis/redis.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { CANDLE_INTERVALS } from '#schemas/values/candle-interval.ts'
import { PART_SHAPES, selectCandleParts } from '#streams/candles/part-rows.ts'
import { selectDayColumns } from '#streams/history/reader.ts'
import { DAY_SHAPE } from '#streams/history/table.ts'
import { ARBITRAGE_AGE_LIMIT_MS } from '#streams/market-summary/arbitrage-amounts.ts'
import {
  type ArbitrageHead,
  arbitrageChunkKey,
  arbitrageHeadKey,
  type SummaryHead,
  summaryChunkKey,
  summaryHeadKey,
} from '#streams/market-summary/table.ts'
import { eventually } from '#test/harness/eventually.ts'
import { newKey } from '../account-keys.ts'
import { startBaseline } from '../baseline.ts'
import type { TimedReading } from '../baselines/readers.ts'
import type { Bench, BenchContext, Entry } from '../bench.ts'
import { type ReadingTimes, readConcurrently } from '../concurrent-readers.ts'
import { figureEntry, ratioEntry, type Turn } from '../entry.ts'
import { publishBids, publishYear, refreshOn } from '../market-analytics-load.ts'
import { requireOffered, requireSome } from '../requirements.ts'
import { standingPlatform } from '../settled.ts'
import type { Stage } from '../stage.ts'
import { median, percentile } from '../statistics.ts'

const READING = new URL('../baselines/readers.ts', import.meta.url)
const READERS = 8
const BIDS_EACH = 25_000
const ROWS_CHECKED = 100_000
const PAGE = 1_000
const LOAD_MS = 30_000
const ITEM_READS = 400
const READS_IN_A_TURN = 40
const WARM_UPS = 40
const YEAR_ITEMS = 40
const YEAR_DAYS = 365
const DAY_MS = 86_400_000
const LIMIT_MS = 300_000

/** What is answered from views of the whole market. */
export const market: Bench = {
  name: 'market',
  ownStage: true,
  about: 'arbitrage over the whole market and all market items, beside the bare reads they rest on',
  run: context => measure(context, async asked => [...(await measureArbitrage(asked)), ...(await measureItems(asked))]),
}

/** What is answered of one item. */
export const marketReads: Bench = {
  name: 'market-reads',
  ownStage: true,
  about: 'one market item, indicators and a chart of a year, beside the bare reads they rest on',
  run: context => measure(context, measureSingles),
}

async function measure(context: BenchContext, run: (asked: Asked) => Promise<Entry[]>): Promise<Entry[]> {
  const stage = await context.stage()
  return run({ baseUrl: await serve(context, stage), context, stage, key: await newKey(stage) })
}

interface Asked {
  context: BenchContext
  stage: Stage
  baseUrl: string
  key: string
}

/** Starts the roles, loads what the stage lacks and waits until the views show it. */
async function serve(context: BenchContext, stage: Stage): Promise<string> {
  context.say('starting the roles')
  await stage.start('live', ['fx', 'provider-health', 'live-view'])
  await stage.start('market-summary', ['market-summary'])
  const { refreshes } = await stage.market.publish(stage.market.listings, 0.01)
  const bids = await publishBids(stage, context.isQuick ? 1_000 : BIDS_EACH)
  await stage.judged.applied([...refreshes, ...bids.refreshes], LIMIT_MS)
  context.say('live-view is catching up')
  await stage.reached('live-view', 'bookChanges', await stage.ends('bookChanges'), LIMIT_MS)
  const api = await stage.start('api', ['api'])
  await api.ready(LIMIT_MS)
  const key = await newKey(stage)
  context.say('waiting for the views of the market')
  for (const path of ['/market/items', '/market/arbitrage']) {
    const isThere = async (): Promise<boolean> => {
      const answer = await fetch(api.baseUrl + path, { headers: { authorization: `Bearer ${key}` } })
      await answer.arrayBuffer()
      return answer.ok
    }
    await eventually(isThere, path, LIMIT_MS)
  }
  return api.baseUrl
}

const p = (times: readonly number[], share: number): number => percentile(times, share)

async function measureArbitrage({ context, stage, baseUrl, key }: Asked): Promise<Entry[]> {
  const refreshing = new AbortController()
  const refreshed = refreshOn(stage, AbortSignal.any([refreshing.signal, context.signal]))
  const paths = [0, 100, 5_000, 60_000].flatMap(offset => [
    `/market/arbitrage?offset=${offset}`,
    `/market/arbitrage?min_spread_pct=5&offset=${offset}&providers_sell=provider_03&providers_sell=provider_12`,
    `/market/arbitrage?limit=1000&offset=${offset}&providers_buy=provider_02`,
  ])
  context.say(`arbitrage with ${READERS} readers while refreshes run`)
  const readers = startBaseline(READING)
  const forMs = context.isQuick ? LOAD_MS / 6 : LOAD_MS
  const times = await readers
    .ask<ReadingTimes>('read', { baseUrl, key, readers: READERS, paths, forMs } satisfies TimedReading)
    .finally(() => readers.stop())
  const checked = await checkAges({ context, baseUrl, key })
  const bare = await bareChunks(stage, 'arbitrage')
  refreshing.abort()
  const refreshes = await refreshed
  requireOffered('refreshes while arbitrage was read', refreshes.published.length, refreshes.offered)
  await stage.judged.applied(refreshes.published, LIMIT_MS)
  requireSome('pairs in the snapshot', bare.rows)
  requireSome('rows whose ages were checked', checked.rows)
  return [
    figureEntry(
      { name: `arbitrage, ${READERS} readers while refreshes run: p99`, unit: 'ms', better: 'lower' },
      p(times.wholeMs, 0.99),
    ),
    figureEntry({ name: 'arbitrage: p50', unit: 'ms', better: 'lower' }, p(times.wholeMs, 0.5)),
    figureEntry({ name: 'arbitrage: answers measured', unit: 'answers', better: null }, times.wholeMs.length),
    figureEntry({ name: 'arbitrage: pairs in the snapshot', unit: 'rows', better: null }, bare.rows),
    figureEntry(
      { name: 'the bare read of the snapshot from Redis: p50', unit: 'ms', better: 'lower' },
      p(bare.ms, 0.5),
    ),
    figureEntry({ name: 'arbitrage: rows whose ages were checked', unit: 'rows', better: null }, checked.rows),
    figureEntry(
      { name: 'arbitrage: rows whose older leg breaks the age limit', unit: 'rows', better: 'lower' },
      checked.broken,
    ),
  ]
}

interface CheckedRow {
  buy_last_updated: string
  sell_last_updated: string
}

/** Pages through the snapshot and counts the rows whose older leg was too old when the page was asked for. */
async function checkAges({ context, baseUrl, key }: Pick<Asked, 'context' | 'baseUrl' | 'key'>) {
  const pages = (context.isQuick ? ROWS_CHECKED / 100 : ROWS_CHECKED) / PAGE
  const counted = { rows: 0, broken: 0 }
  let askedAt = Date.now()
  await readConcurrently(
    {
      ...{ baseUrl, key, readers: 1, signal: context.signal },
      pathOf: n => {
        askedAt = Date.now()
        return `/market/arbitrage?limit=${PAGE}&offset=${n * PAGE}`
      },
      goesOn: n => n < pages,
    },
    body => {
      for (const row of (JSON.parse(body.toString()) as { data: { items: CheckedRow[] } }).data.items) {
        const older = Math.min(Date.parse(row.buy_last_updated), Date.parse(row.sell_last_updated))
        counted.rows += 1
        if (askedAt - older > ARBITRAGE_AGE_LIMIT_MS) counted.broken += 1
      }
    },
  )
  return counted
}

/** Reads a view's values from Redis as they are, some times over. */
async function bareChunks(stage: Stage, view: 'arbitrage' | 'summary'): Promise<{ rows: number; ms: number[] }> {
  const prefix = stage.config.namespace
  const redis = await openRedis(stage.config, { name: 'bench', log: stage.log })
  const ms: number[] = []
  let rows = 0
  try {
    for (let turn = 0; turn < 10; turn++) {
      const startedAt = performance.now()
      const text = await redis.get((view === 'arbitrage' ? arbitrageHeadKey : summaryHeadKey)(prefix))
      const head = JSON.parse(text ?? '{}') as ArbitrageHead & SummaryHead
      const chunks = view === 'arbitrage' ? head.chunks : head.body.chunks
      const keyOf = view === 'arbitrage' ? arbitrageChunkKey : summaryChunkKey
      for (let chunk = 0; chunk < chunks; chunk++) await redis.getBuffer(keyOf(head.version, chunk, prefix))
      ms.push(performance.now() - startedAt)
      rows = head.rows
    }
  } finally {
    await closeRedis(redis)
  }
  return { rows, ms }
}

async function measureItems({ context, stage, baseUrl, key }: Asked): Promise<Entry[]> {
  context.say('all market items')
  const read = (headers: Record<string, string>): Promise<ReadingTimes> =>
    readConcurrently({
      ...{ baseUrl, key, readers: 1, signal: context.signal, headers },
      pathOf: () => '/market/items',
      goesOn: n => n < (context.isQuick ? 5 : 40),
    })
  const [plain, zipped] = [await read({ 'accept-encoding': 'identity' }), await read({ 'accept-encoding': 'gzip' })]
  const bare = await bareChunks(stage, 'summary')
  requireSome('market items', bare.rows)
  return [
    figureEntry(
      { name: 'all market items, plain: first byte p99', unit: 'ms', better: 'lower' },
      p(plain.firstByteMs, 0.99),
    ),
    figureEntry(
      { name: 'all market items, gzip: first byte p99', unit: 'ms', better: 'lower' },
      p(zipped.firstByteMs, 0.99),
    ),
    figureEntry({ name: 'all market items, plain: last byte p50', unit: 'ms', better: 'lower' }, p(plain.wholeMs, 0.5)),
    figureEntry({ name: 'all market items: rows', unit: 'rows', better: null }, bare.rows),
    figureEntry({ name: 'the bare read of the summary from Redis: p50', unit: 'ms', better: 'lower' }, p(bare.ms, 0.5)),
  ]
}

/** Starts the owners of stored prices and gives some items a year of closes; resolves with the items. */
async function storeYear(context: BenchContext, stage: Stage): Promise<readonly number[]> {
  await stage.start('history', ['history', 'candles'])
  const yearItems = stage.market.itemIds.slice(0, context.isQuick ? 4 : YEAR_ITEMS)
  context.say('publishing a year of closes')
  await publishYear(stage, yearItems, YEAR_DAYS)
  for (const group of ['history', 'candles']) {
    context.say(`${group} is catching up`)
    for (const topic of ['dayCloses', 'bookChanges'] as const) {
      await stage.reached(group, topic, await stage.ends(topic), LIMIT_MS)
    }
  }
  return yearItems
}

async function measureSingles(asked: Asked): Promise<Entry[]> {
  const { context, stage } = asked
  const yearItems = await storeYear(context, stage)
  await standingPlatform(context, stage)
  const end = Math.floor(Date.now() / DAY_MS) * DAY_MS
  const reader = openReader(stage.config.servers.clickhouseReadOnly, {
    database: databaseName(stage.config.namespace),
    name: 'bench',
  })
  const bareOf = {
    item: (item_id: number) =>
      reader.rows(`SELECT * FROM ${reader.database}.changes WHERE item_id = {item_id:UInt32} AND side = 'ask'`, {
        item_id,
      }),
    indicators: (item_id: number) =>
      reader.columns(selectCandleParts(reader.database, 'summed'), PART_SHAPES.summed, {
        ...{ interval_s: CANDLE_INTERVALS['1d'].ms / 1000, item_id },
        ...{ start_s: (end - YEAR_DAYS * DAY_MS) / 1000, end_s: end / 1000, fresh_s: end / 1000 },
      }),
    chart: (item_id: number) =>
      reader.columns(selectDayColumns(reader.database, 'within', { providers: [] }), DAY_SHAPE, {
        ...{ items: [item_id], providers: [] },
        ...{ start_day: end / DAY_MS - YEAR_DAYS, end_day: end / DAY_MS + 1 },
      }),
  }
  const spread = stage.market.itemIds.filter((_, at) => at % 50 === 0)
  try {
    return [
      ...(await single(asked, 'one market item', spread, id => `/market/items/${id}`, bareOf.item)),
      ...(await single(
        asked,
        'indicators of a year of 41 providers',
        yearItems,
        id => `/market/indicators?item_id=${id}`,
        bareOf.indicators,
      )),
      ...(await single(
        asked,
        'a chart of a year of 41 providers',
        yearItems,
        id => `/market/history/chart?item_id=${id}`,
        bareOf.chart,
      )),
    ]
  } finally {
    context.say('done')
    await reader.close()
  }
}

async function single(
  { context, baseUrl, key }: Asked,
  name: string,
  itemIds: readonly number[],
  pathOf: (itemId: number) => string,
  bare: (itemId: number) => Promise<unknown>,
): Promise<Entry[]> {
  context.say(name)
  const reads = context.isQuick ? READS_IN_A_TURN : ITEM_READS
  const itemOf = (n: number): number => itemIds[n % itemIds.length] as number
  const readOurs = async (from: number, count: number): Promise<number[]> => {
    const { wholeMs } = await readConcurrently({
      ...{ baseUrl, key, readers: 1, signal: context.signal },
      pathOf: n => pathOf(itemOf(from + n)),
      goesOn: n => n < count,
    })
    return wholeMs
  }
  const readBare = async (from: number, count: number): Promise<number[]> => {
    const times: number[] = []
    for (let n = from; n < from + count; n++) {
      const startedAt = performance.now()
      await bare(itemOf(n))
      times.push(performance.now() - startedAt)
    }
    return times
  }
  // The first reads load what both keep: the table's index, the compiled query, the process's own code.
  await readOurs(0, WARM_UPS)
  await readBare(0, WARM_UPS)
  const wholeMs: number[] = []
  const bareMs: number[] = []
  const turns: Turn[] = []
  for (let from = 0; from < reads; from += READS_IN_A_TURN) {
    const sides = [
      async () => wholeMs.push(...(await readOurs(from, READS_IN_A_TURN))),
      async () => bareMs.push(...(await readBare(from, READS_IN_A_TURN))),
    ]
    for (const side of turns.length % 2 === 0 ? sides : sides.toReversed()) await side()
    const [value, against] = [wholeMs, bareMs].map(times => median(times.slice(-READS_IN_A_TURN))) as [number, number]
    turns.push({ value, against })
  }
  return [
    figureEntry({ name: `${name}: p99`, unit: 'ms', better: 'lower' }, p(wholeMs, 0.99)),
    ratioEntry({ name: `${name}: p50, beside the bare ClickHouse query`, unit: 'ms', better: 'lower' }, turns),
    figureEntry({ name: `${name}: the bare ClickHouse query, p99`, unit: 'ms', better: 'lower' }, p(bareMs, 0.99)),
  ]
}
