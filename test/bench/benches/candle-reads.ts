/**
 * GET /prices/candles over a month of hours, with 20 million stored changes. The parts are made by ClickHouse itself, as many for an item as
 * it is popular: 200 for most, over 5,000 for a few. One request after the other, items of all kinds.
 */
import { loadCatalog } from '#infra/config/catalog.ts'
import { CANDLE_INTERVALS } from '#schemas/values/candle-interval.ts'
import { eventually } from '#test/harness/eventually.ts'
import type { Bench, BenchContext } from '../bench.ts'
import { askAs, type BenchPlatform } from '../bench-platform.ts'
import { entryOf, percentile, requireSome } from '../entry.ts'
import { settled } from '../whole-platform.ts'

const ITEMS = 30_000
const READS = 400
const WARM_UPS = 20
const HOURS = 29 * 24
const HOUR_S = CANDLE_INTERVALS['1h'].ms / 1000
const PARTS_AT_LEAST = 20_000_000
/** An insert of more takes gigabytes of the server's memory. */
const ITEMS_IN_AN_INSERT = 500

export const candleReads: Bench = {
  name: 'candle-reads',
  about: 'a month of 1h candles over 20 million stored changes',
  async run(context) {
    const platform = await context.platform()
    const itemIds = loadCatalog()
      .filter(({ phase }) => phase === null)
      .slice(0, context.isQuick ? ITEMS / 30 : ITEMS)
      .map(({ item_id }) => item_id)
    const process = await platform.role('api')
    await process.ready()
    // It keeps the table of an empty log: one that nobody keeps is not served.
    await (await platform.role('candles')).ready()
    await fill(context, platform, itemIds)
    const key = await platform.newKey()
    let candles = 0
    const timed = async (itemId: number): Promise<number> => {
      const startedAt = performance.now()
      const query = `item_id=${itemId}&interval=1h&lookback=30d`
      const text = await askAs(key, `${process.url}/v1/prices/candles?${query}`)
      candles += text.split('"t":').length - 1
      return performance.now() - startedAt
    }
    // Popular ones and others alike.
    const step = Math.ceil(itemIds.length / (context.isQuick ? READS / 10 : READS))
    const ids = itemIds.filter((_, at) => at % step === 0)
    await eventually(() => timed(ids[0] as number), 'the table to be served')
    // The first reads load what is kept: the table's index, the compiled query, the process's own code.
    for (const itemId of ids.slice(0, WARM_UPS)) await timed(itemId)
    requireSome('candles of the items that are read', candles)
    const times: number[] = []
    for (const itemId of ids) {
      context.signal.throwIfAborted()
      context.say(`read ${times.length} of ${ids.length}`)
      times.push(await timed(itemId))
    }
    return [entryOf('a month of 1h candles over 20 million stored changes: p99', 'ms', percentile(times, 0.99))]
  },
}

async function fill(context: BenchContext, platform: BenchPlatform, ids: readonly number[]): Promise<void> {
  const tables = platform.openTables()
  for (let from = 0; from < ids.length; from += ITEMS_IN_AN_INSERT) {
    context.signal.throwIfAborted()
    context.say(`storing parts: items ${from} of ${ids.length}`)
    await tables.command(insertParts(tables.database, ids.slice(from, from + ITEMS_IN_AN_INSERT), from / ids.length))
  }
  await settled(context, tables)
  const [stored] = await tables.rows<{ n: number }>(
    `SELECT count() AS n FROM ${tables.database}.candle_parts WHERE interval_s = ${HOUR_S}`,
  )
  const parts = stored?.n ?? 0
  if (!context.isQuick && parts < PARTS_AT_LEAST) throw new Error(`only ${parts} parts are stored`)
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
