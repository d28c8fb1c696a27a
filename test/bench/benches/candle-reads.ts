/**
 * GET /prices/candles over a month of hours, with 20 million stored changes, beside the bare query that it rests on.
 *
 * The parts are made by ClickHouse itself, as many for an item as it is popular: 200 for most, over 5,000 for a few. Each
 * holds at least one change. One request after the other, items of all kinds, a month of hours each. A platform of its own,
 * since the live market has no part in it.
 */
import { openReader, openWriter } from '#infra/clickhouse/clickhouse.ts'
import { loadCatalog } from '#infra/config/catalog.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { CANDLE_INTERVALS } from '#schemas/values/candle-interval.ts'
import { PART_SHAPES, selectCandleParts } from '#streams/candles/part-rows.ts'
import { newKey } from '../account-keys.ts'
import type { Bench, BenchContext, Entry } from '../bench.ts'
import type { BenchPlatform } from '../bench-platform.ts'
import { figureEntry, ratioEntry, type Turn } from '../entry.ts'
import { requireSome } from '../requirements.ts'
import { settled } from '../settled.ts'
import { median, percentile } from '../statistics.ts'

const ITEMS = 30_000
const READS = 400
const READS_IN_A_TURN = 40
const WARM_UPS = 20
const DAYS = 29
const HOURS = DAYS * 24
const HOUR_S = CANDLE_INTERVALS['1h'].ms / 1000
const PARTS_AT_LEAST = 20_000_000
/** An insert of more takes gigabytes of the server's memory. */
const ITEMS_IN_AN_INSERT = 500

/** Candles of a month. */
export const candleReads: Bench = {
  name: 'candle-reads',
  about: 'a month of 1h candles over 20 million stored changes, beside the bare query',
  async run(context) {
    context.say('setting a namespace up')
    const platform = await context.platform()
    try {
      return await measure(context, platform)
    } finally {
      await platform.close()
    }
  },
}

async function measure(context: BenchContext, platform: BenchPlatform): Promise<Entry[]> {
  const itemIds = loadCatalog()
    .filter(({ phase }) => phase === null)
    .slice(0, context.isQuick ? ITEMS / 30 : ITEMS)
    .map(({ item_id }) => item_id)
  const process = await platform.role('api')
  await process.ready()
  const parts = await fill(context, platform, itemIds)
  const headers = { authorization: `Bearer ${await newKey(platform)}` }
  const ids = spread(itemIds, context.isQuick ? READS / 10 : READS)
  let candles = 0
  const ask = async (itemId: number): Promise<void> => {
    const url = `${process.baseUrl}/v1/prices/candles?item_id=${itemId}&interval=1h&lookback=30d`
    const answer = await fetch(url, { headers })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`candles answered ${answer.status}: ${text}`)
    candles += text.split('"t":').length - 1
  }
  const reader = openReader(platform.config.servers.clickhouseReadOnly, {
    database: databaseName(platform.config.namespace),
    name: 'bench',
  })
  const end_s = Math.floor(Date.now() / 1000 / HOUR_S) * HOUR_S
  const bare = async (item_id: number): Promise<void> => {
    const params = { interval_s: HOUR_S, item_id, start_s: end_s - HOURS * HOUR_S, end_s, fresh_s: end_s }
    await reader.columns(selectCandleParts(reader.database, 'each'), PART_SHAPES.each, params)
  }
  try {
    // The first reads load what both keep: the table's index, the compiled query, the process's own code.
    for (const itemId of ids.slice(0, WARM_UPS)) await ask(itemId).then(() => bare(itemId))
    requireSome('candles of the items that are read', candles)
    const { ours, plain, turns } = await timesOf(context, ids, ask, bare)
    return [
      ...[
        { name: 'a month of 1h candles over 20 million stored changes: p99', times: ours, share: 0.99 },
        { name: 'the bare query of the same parts: p99', times: plain, share: 0.99 },
      ].map(
        ({ name, times, share }): Entry => figureEntry({ name, unit: 'ms', better: 'lower' }, percentile(times, share)),
      ),
      ratioEntry({ name: 'a month of 1h candles: p50, beside the bare query', unit: 'ms', better: 'lower' }, turns),
      figureEntry({ name: 'a month of 1h candles: stored changes', unit: 'millions', better: null }, parts / 1e6),
    ]
  } finally {
    await reader.close()
  }
}

/** Some of the items, popular ones and others alike. */
const spread = (itemIds: readonly number[], count: number): number[] =>
  itemIds.filter((_, at) => at % Math.ceil(itemIds.length / count) === 0)

/** Milliseconds of the platform's answers and of the bare query, in turns; who comes first differs from item to item. */
async function timesOf(
  context: BenchContext,
  itemIds: readonly number[],
  ask: (itemId: number) => Promise<void>,
  bare: (itemId: number) => Promise<void>,
): Promise<{ ours: number[]; plain: number[]; turns: Turn[] }> {
  const ours: number[] = []
  const plain: number[] = []
  const turns: Turn[] = []
  for (const [each, itemId] of itemIds.entries()) {
    context.signal.throwIfAborted()
    context.say(`read ${each} of ${itemIds.length}`)
    const reads = [async () => ours.push(await timed(ask, itemId)), async () => plain.push(await timed(bare, itemId))]
    for (const read of each % 2 === 0 ? reads : reads.toReversed()) await read()
    if ((each + 1) % READS_IN_A_TURN > 0) continue
    const [value, against] = [ours, plain].map(times => median(times.slice(-READS_IN_A_TURN))) as [number, number]
    turns.push({ value, against })
  }
  return { ours, plain, turns }
}

async function timed(read: (itemId: number) => Promise<void>, itemId: number): Promise<number> {
  const startedAt = performance.now()
  await read(itemId)
  return performance.now() - startedAt
}

/** Fills the table with parts of the last month; returns how many there are. */
async function fill(context: BenchContext, { config }: BenchPlatform, ids: readonly number[]): Promise<number> {
  const writer = openWriter(config.servers.clickhouse, { database: databaseName(config.namespace), name: 'bench' })
  try {
    for (let from = 0; from < ids.length; from += ITEMS_IN_AN_INSERT) {
      context.signal.throwIfAborted()
      context.say(`storing parts: items ${from} of ${ids.length}`)
      await writer.command(insertParts(writer.database, ids.slice(from, from + ITEMS_IN_AN_INSERT), from / ids.length))
    }
    await settled(context, writer)
    const [stored] = await writer.rows<{ n: number }>(
      `SELECT count() AS n FROM ${writer.database}.candle_parts WHERE interval_s = ${HOUR_S}`,
    )
    const parts = stored?.n ?? 0
    if (!context.isQuick && parts < PARTS_AT_LEAST) throw new Error(`only ${parts} parts are stored`)
    return parts
  } finally {
    await writer.close()
  }
}

/** `popularity` falls from 0, the most popular items, to 1. */
function insertParts(database: string, ids: readonly number[], popularity: number): string {
  const partsOfItem = Math.round(230 + 5_100 * Math.exp(-popularity * 10))
  return `INSERT INTO ${database}.candle_parts (interval_s, item_id, bucket, provider, opening, closing, low, high, falls)
    SELECT ${HOUR_S}, item, toStartOfHour(now()) - toIntervalHour(1 + intHash64(item * 100000 + each) % ${HOURS}) AS hour,
      concat('provider_', leftPad(toString(1 + intHash64(item * 300007 + each) % 41), 2, '0')),
      (toUInt64(toUnixTimestamp(hour)) * 1000, true, micro, 5, toInt64(toUnixTimestamp(hour)) * 1000),
      (toUInt64(toUnixTimestamp(hour)) * 1000 + 1, true, micro + 10000, 4, toInt64(toUnixTimestamp(hour)) * 1000 + 60000),
      micro, micro + 10000, map(toUInt64(toUnixTimestamp(hour)) * 1000 + 1, 1)
    FROM (
      SELECT arrayJoin([${ids.join(',')}]) AS item, arrayJoin(range(${partsOfItem})) AS each,
        toInt64(1000000 + intHash64(item) % 100000000 + intHash64(each) % 100000) AS micro
    )`
}
