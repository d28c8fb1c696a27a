/**
 * What the costliest requests are about, beside the stage's market: a finish of many phases with all that can be stored of it, and the
 * largest portfolio that an account may have.
 *
 * Writes the tables of ClickHouse and Postgres by SQL: what is measured is how they are read.
 */
import type { ClickhouseWriter } from '#infra/clickhouse/clickhouse.ts'
import { loadCatalog } from '#infra/config/catalog.ts'
import { CANDLE_INTERVALS } from '#schemas/values/candle-interval.ts'
import type { CatalogItem } from '#schemas/values/catalog-item.ts'
import { DAY_MS, MINUTE_MS } from '#schemas/values/instant.ts'
import { CHANGES_RETENTION_DAYS } from '#streams/history/reader.ts'
import type { BenchContext } from './bench.ts'
import type { Stage } from './stage.ts'
import { settled } from './whole-platform.ts'

const YEARS = 10
const SALES = 20_000
/** Of a portfolio, with room for what is asked to be added: 10,000 entries and 250,000 trades are the most. */
const LARGEST = { entries: 9_900, trades: 249_900, years: 26 }
const FILL_LIMIT_MS = 300_000

/** The items of the finishes with the most phases, those of one finish together. */
export function manyPhases(): CatalogItem[][] {
  const finishes = [...Map.groupBy(loadCatalog(), item => item.market_hash_name).values()]
  return finishes.filter(({ length }) => length > 1).sort((a, b) => b.length - a.length)
}

/** A row of each provider for an item and step back from now; `at` is its moment in milliseconds. */
const steps = (itemId: number, stepS: number, count: number): string => `(SELECT ${itemId} AS item,
    concat('provider_', leftPad(toString(arrayJoin(range(1, 42))), 2, '0')) AS provider,
    toUInt64(intDiv(toUnixTimestamp(now()), ${stepS}) - arrayJoin(range(${Math.ceil(count)}))) * ${stepS} * 1000 AS at,
    toInt64(1000000 + cityHash64(item, provider, at) % 1000000) AS micro)`

/** Stores candles of a width of all providers for some items, from now back. */
export async function storeCandles(
  { command, database }: Pick<ClickhouseWriter, 'command' | 'database'>,
  itemIds: readonly number[],
  { ms, count }: { ms: number; count: number },
): Promise<void> {
  for (const itemId of itemIds)
    await command(`INSERT INTO ${database}.candle_parts (interval_s, item_id, bucket, provider, opening, closing, low, high, falls)
        SELECT ${ms / 1000}, item, toDateTime(intDiv(at, 1000), 'UTC'), provider, (at, true, micro, 5, at),
          (at + 1, true, micro + 10000, 4, at + 60000), micro, micro + 10000, map(at + 1, 1)
        FROM ${steps(itemId, ms / 1000, count)}`)
}

/** Stores prices of all providers for some items, as often and as far back as they are kept. */
export async function storePast(context: BenchContext, stage: Stage, items: readonly CatalogItem[]): Promise<void> {
  const share = context.isQuick ? 0.1 : 1
  const tables = stage.openTables()
  const { command, database } = tables
  const ids = items.map(({ item_id }) => item_id)
  for (const { ms, retentionDays } of Object.values(CANDLE_INTERVALS)) {
    context.say(`storing candles of ${ms / MINUTE_MS} minutes`)
    await storeCandles(tables, ids, { ms, count: (share * retentionDays * DAY_MS) / ms })
  }
  context.say('storing days, changes and sales')
  for (const id of ids) {
    await command(`INSERT INTO ${database}.provider_days
        SELECT item, 'ask', provider, toDate(intDiv(at, 1000)), (1, 100 + micro % 1000, micro, 'USD'), (1, true, 3)
        FROM ${steps(id, 86_400, share * YEARS * 365)}`)
    await command(`INSERT INTO ${database}.changes SELECT item, 'ask', fromUnixTimestamp64Milli(toInt64(at), 'UTC'), provider,
        'updated', 100 + micro % 1000, 'USD', micro, '1', 3, micro + 10000, 4, 0, at
        FROM ${steps(id, 3_600, share * CHANGES_RETENTION_DAYS * 24)}`)
  }
  for (const table of ['sales', 'sales_by_time']) {
    await command(`INSERT INTO ${database}.${table}
        SELECT ${ids[0]}, fromUnixTimestamp64Milli(toInt64(toUnixTimestamp(now()) - number * 60) * 1000, 'UTC'), 'provider_02',
          toString(number), 500, 'USD', 5000000, '1', 0.25, 7, true, arrayMap(slot -> (repeat('Sticker ', 12), slot, 0.5), range(5)),
          true, [(repeat('Charm ', 12), 5)], repeat('i', 100), repeat('f', 100), repeat('b', 100), now64(), number
        FROM numbers(${Math.ceil(SALES * share)})`)
  }
  await command(`INSERT INTO ${database}.fx_days (day, currency, rate, as_of)
      SELECT today() - number, arrayJoin(['EUR', 'JPY', 'GBP']),
      toString(0.85 + number / 100000), now64() FROM numbers(${LARGEST.years * 366})`)
  await settled(context, tables)
}

/** Fills a portfolio with about what the highest tier may have. */
export async function fillPortfolio(context: BenchContext, stage: Stage, id: string): Promise<void> {
  const { market } = stage
  const entries = Math.min(LARGEST.entries, market.itemIds.length)
  const [trades, days] = [context.isQuick ? LARGEST.trades / 10 : LARGEST.trades, LARGEST.years * 365]
  const database = stage.openDatabase({ statementLimitMs: FILL_LIMIT_MS })
  await database.rows(
    `INSERT INTO portfolio_entries (portfolio_id, item_id, added_quantity, source, float_value, paint_seed, inspect_link, name_tag, stickers, charms, created_at)
      SELECT $1, item_id, 1, 'gamestore', 0.25, 7, repeat('i', 200), repeat('n', 20), $3::jsonb, $4::jsonb, now()
      FROM unnest($2::int[]) item_id`,
    [
      ...[id, market.itemIds.slice(0, entries)],
      JSON.stringify(Array.from({ length: 5 }, (_, slot) => ({ name: 'Sticker '.repeat(12), slot, wear: 0.5 }))),
      JSON.stringify([{ name: 'Charm '.repeat(12), pattern_id: 5 }]),
    ],
  )
  await database.rows(
    `INSERT INTO portfolio_transactions
        (portfolio_id, item_id, type, quantity, price, currency, date, fee_percentage, marketplace, note, created_at, updated_at)
      SELECT $1, ($2::int[])[1 + n % $3], 'buy', 1, 100, 'USD', current_date - n % $5, 2.5, 'provider_02', repeat('n', 100), now(), now()
      FROM generate_series(0, $4 - 1) n`,
    [id, market.itemIds.slice(0, entries), entries, trades, days],
  )
  await database.rows('UPDATE portfolios SET entry_count = $2, transaction_count = $3 WHERE id = $1', [
    id,
    entries,
    trades,
  ])
}
