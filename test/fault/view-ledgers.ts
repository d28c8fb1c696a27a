/** The live tables in Redis and those of history and candles in ClickHouse, beside the expected changes, folded in the plainest way. */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { Redis } from '#infra/redis/redis.ts'
import { ITEM_PARTITIONS } from '#schemas/topics.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { readTables } from '#test/fixtures/live-tables.ts'
import type { Ledger, LedgerEntry } from '#test/harness/ledger.ts'
import { openLedger } from '#test/harness/ledger.ts'
import { urlOf } from '#test/harness/published-records.ts'
import type { Expected, ExpectedChange } from '#test/harness/reference-fold.ts'
import { partEntries, selectPartRows, selectStandingRows, standingEntries } from '#test/oracles/candle-tables.ts'
import { selectDayRows } from '#test/oracles/provider-days.ts'

/** Holds the live tables against the fold's final books; a killed build may have left another version of them. */
export async function liveLedgers(
  redis: Redis,
  prefix: string,
  { books, refreshedAt }: Expected,
  isKilled = false,
): Promise<Record<string, Ledger>> {
  const view = await readTables(redis, prefix, isKilled)
  const rows: LedgerEntry[] = []
  for (const [key, items] of books) {
    const provider = key.split('|')[1] ?? ''
    for (const [itemId, { price, currency, price_micro_usd, quantity, seen_at }] of items) {
      const url = urlOf(provider, itemId)
      rows.push({
        key: `${partitionOfItem(itemId)}|${key}|${itemId}`,
        what: [price, currency, price_micro_usd, quantity, seen_at, url].join(' '),
      })
    }
  }
  const refreshed = [...refreshedAt].flatMap(([key, at]) =>
    Array.from({ length: ITEM_PARTITIONS }, (_, partition) => ({ key: `${partition}|${key}`, what: String(at) })),
  )
  return {
    'live rows': openLedger(
      rows,
      [...view.rows].map(([key, row]) => ({
        key,
        what: [row.price, row.currency, row.priceMicroUsd, row.quantity, row.seenAt, row.url].join(' '),
      })),
    ),
    'live listings': openLedger(
      rows.map(({ key }) => ({ key, what: 'listed' })),
      view.listed.map(key => ({ key, what: 'listed' })),
    ),
    'live refresh times': openLedger(
      refreshed,
      [...view.refreshed].map(([key, at]) => ({ key, what: String(at) })),
    ),
  }
}

/** The rows of history and candles, merged and without offsets. */
export async function readTableRows(reader: ClickhouseReader) {
  const { database } = reader
  const read = async (statement: string, keys: number): Promise<LedgerEntry[]> =>
    (await reader.rows<Record<string, unknown>>(statement)).map(row => entryOf(Object.values(row), keys))
  return {
    changes: await read(selectChanges(database), 3),
    provider_days: await read(selectDays(database), 4),
    candle_parts: await read(selectPartRows(database), 4),
    candle_standing: await read(selectStandingRows(database), 2),
  }
}

export async function tableLedgers(reader: ClickhouseReader, { changes }: Expected): Promise<Record<string, Ledger>> {
  const rows = await readTableRows(reader)
  const asks = changes.filter(({ side }) => side === 'ask')
  return {
    'table changes': openLedger(changes.map(changeEntry), rows.changes),
    'table provider_days': openLedger(expectedDays(changes), rows.provider_days),
    'table candle_parts': openLedger(partEntries(asks), rows.candle_parts),
    'table candle_standing': openLedger(standingEntries(asks), rows.candle_standing),
  }
}

/** A row as an entry: its first columns are the key. */
const entryOf = (row: readonly unknown[], keys: number): LedgerEntry => ({
  key: row.slice(0, keys).join('|'),
  what: row.slice(keys).join(' '),
})

const changeEntry = (change: ExpectedChange): LedgerEntry => ({
  key: keyOf(change),
  what: [
    ...[change.seen_at, change.change, change.price, change.currency, change.price_micro_usd],
    ...[change.usd_rate, change.quantity, change.previous_micro_usd, change.previous_quantity],
  ].join(' '),
})

/** With every row of an offset: a record that was written twice is one row after merging. */
const selectChanges = (database: string): string =>
  `SELECT side, provider, item_id, toUnixTimestamp64Milli(seen_at), change, price, currency, price_micro_usd,
  usd_rate, quantity, previous_micro_usd, previous_quantity
  FROM ${database}.changes FINAL ORDER BY partition, offset`

const keyOf = ({ side, provider, item_id }: ExpectedChange): string => `${side}|${provider}|${item_id}`

/** How each day closed: the last price that was set that day, and what was listed at its end. */
function expectedDays(changes: readonly ExpectedChange[]): LedgerEntry[] {
  const days = Map.groupBy(changes, change => `${keyOf(change)}|${dayOf(change.seen_at)}`)
  return [...days].map(([key, ofDay]) => {
    const priced = ofDay.findLast(({ price }) => price !== null)
    const last = ofDay.at(-1)
    const price = priced ? [priced.price, priced.price_micro_usd, priced.currency] : ['', '', '']
    return { key, what: [...price, last?.quantity, last?.price !== null].join(' ') }
  })
}

const dayOf = (time: number): string => new Date(Math.floor(time / DAY_MS) * DAY_MS).toISOString().slice(0, 10)

const selectDays = (database: string): string =>
  `SELECT side, provider, item_id, day, price, price_micro_usd, currency, quantity, listed
  FROM (${selectDayRows(database)})`
