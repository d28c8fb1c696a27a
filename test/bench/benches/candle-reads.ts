/**
 * GET /prices/candles over a month of hours, with 20 million stored changes, beside the bare query that it rests on.
 *
 * The parts are made by ClickHouse itself, as many for an item as it is popular: 200 for most, over 5,000 for a few. Each
 * stands for at least one change. One request after the other, items of all kinds, a month of hours each.
 */
import { openReader, openWriter } from '#infra/clickhouse/clickhouse.ts'
import { databaseName } from '#infra/runtime/config.ts'
import { CANDLE_INTERVALS } from '#schemas/views/candle.ts'
import { PART_SHAPES, selectCandleParts } from '#schemas/views/clickhouse/candle-parts.ts'
import { newKey } from '../api-access.ts'
import type { Bench, BenchContext, Entry } from '../bench.ts'
import { figureEntry } from '../entry.ts'
import { serveApi } from '../serve-api.ts'
import { settled } from '../settled.ts'
import type { Stage } from '../stage.ts'
import { percentile } from '../statistics.ts'

const BAR_MS = 50
const READS = 400
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
    const stage = await context.stage()
    const process = await serveApi(stage, text => context.say(text))
    const parts = await fill(context, stage)
    const headers = { authorization: `Bearer ${await newKey(stage)}` }
    const ids = spread(stage.market.itemIds, context.isQuick ? READS / 10 : READS)
    const ask = async (itemId: number): Promise<void> => {
      const url = `${process.baseUrl}/v1/prices/candles?item_id=${itemId}&interval=1h&lookback=30d`
      const answer = await fetch(url, { headers })
      const text = await answer.text()
      if (!answer.ok) throw new Error(`candles answered ${answer.status}: ${text}`)
    }
    const reader = openReader(stage.config.servers.clickhouseReadOnly, {
      database: databaseName(stage.config.namespace),
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
      const [ours, plain] = [await timesOf(context, ids, ask), await timesOf(context, ids, bare)]
      const over = `${(parts / 1e6).toFixed(1)} million stored changes`
      return [
        figureEntry({ name: `a month of 1h candles over ${over}: p99`, unit: 'ms' }, percentile(ours, 0.99), BAR_MS),
        ...[
          { name: 'a month of 1h candles: p50', times: ours, share: 0.5 },
          { name: 'the bare query of the same parts: p99', times: plain, share: 0.99 },
          { name: 'the bare query of the same parts: p50', times: plain, share: 0.5 },
        ].map(({ name, times, share }): Entry => figureEntry({ name, unit: 'ms' }, percentile(times, share))),
      ]
    } finally {
      await reader.close()
    }
  },
}

/** Some of the items, popular ones and others alike. */
const spread = (itemIds: readonly number[], count: number): number[] =>
  itemIds.filter((_, at) => at % Math.ceil(itemIds.length / count) === 0)

async function timesOf(
  context: BenchContext,
  itemIds: readonly number[],
  read: (itemId: number) => Promise<void>,
): Promise<number[]> {
  const times: number[] = []
  for (const itemId of itemIds) {
    context.signal.throwIfAborted()
    context.say(`read ${times.length} of ${itemIds.length}`)
    const startedAt = performance.now()
    await read(itemId)
    times.push(performance.now() - startedAt)
  }
  return times
}

/** Fills the table with parts of the last month; returns how many there are. */
async function fill(context: BenchContext, { config, market }: Stage): Promise<number> {
  const writer = openWriter(config.servers.clickhouse, { database: databaseName(config.namespace), name: 'bench' })
  try {
    const ids = market.itemIds
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
