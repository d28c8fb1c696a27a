/**
 * The daily values of portfolios, a page at a time.
 *
 * Reads the ledger (Postgres), daily closes and past exchange rates (ClickHouse); caches the values under the version of
 * the portfolio. Invariant: values of a page are those of the ledger as of the version that came with the request; closes
 * may be KEPT_MS old. They are computed in blocks of days, which are fewer the more items there are; most ledgers are one block,
 * and a request computes BLOCKS_COMPUTED at most. Memory is bounded: closes are read for as many items at a time as have ROWS_AT_ONCE
 * rows together, the days before the block as one row per item and provider, and KEPT_MAX ledgers are kept.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { Database } from '#infra/postgres/pool.ts'
import { nextTurn } from '#infra/runtime/turns.ts'
import { DAY_MS, MINUTE_MS } from '#schemas/values/instant.ts'
import { minorDigits, toMinor } from '#schemas/values/money.ts'
import { type LedgerSpan, readDayMovements, readLedgerSpan } from '#services/portfolios/ledger/reader.ts'
import {
  type AmountOn,
  addItem,
  type DailyValues,
  type DayMovement,
  noValues,
} from '#services/portfolios/values/reader.ts'
import { type CloseScope, countCloses, readCloses } from '#streams/history/reader.ts'
import { readRates } from '../context.ts'

interface DailyScope {
  portfolioId: string
  version: string
  currency: string
  /** All by default. */
  providers: readonly string[] | undefined
  /** Number of the day of now. */
  today: number
  /** Runs what must be computed: so many values of an item on a day. */
  run<T>(cells: number, work: () => Promise<T>): Promise<T>
}

/** Of a ledger on a day, in hundredths of the currency. */
export interface DayValue {
  total: number
  positions: number
  valued: number
}

interface DailySources {
  clickhouse: ClickhouseReader
  database: Database
  /** Monotonic, milliseconds. */
  clock: () => number
  /** Closes of a block, where it has more than one day: about two seconds by default. */
  blockRows?: number
}

/** Short, since today's close still changes. */
const KEPT_MS = MINUTE_MS
const KEPT_MAX = 128
/** Of about 40 bytes each while they are read. */
const ROWS_AT_ONCE = 100_000
/** Ids are sent in the URL of a query, which may have a megabyte. */
const ITEMS_AT_ONCE = 5_000
/** Items times days of a block: five years of 500 items. */
const BLOCK_CELLS = 2 ** 20
const BLOCK_ROWS = 2_000_000
/** Of one request: a window that is no longer than a block lies in two at most. */
const BLOCKS_COMPUTED = 2
/** Days and closes of items between two pauses: some milliseconds. */
const ROWS_OF_A_TURN = 20_000
/** 2^40: above, a double might round a hundredth away. */
const EXACT_BELOW = 2 ** 40

const NOTHING: DayValue = { total: 0, positions: 0, valued: 0 }

/** Opens the reader; its answers are of one ledger each. */
export function openDailyReader(sources: DailySources) {
  /** Of a ledger in a currency, of some providers. */
  const cache = new Map<string, { at: number; span: LedgerSpan; blocks: DailyValues[] }>()
  return async (scope: DailyScope) => {
    const { portfolioId, version, currency, providers, today, run } = scope
    const key = [portfolioId, version, currency, today, providers?.join()].join('|')
    let cached = cache.get(key)
    if (!cached || sources.clock() - cached.at >= KEPT_MS) {
      cached = { at: sources.clock(), span: await readLedgerSpan(sources.database, portfolioId), blocks: [] }
      cache.delete(key)
      cache.set(key, cached)
      if (cache.size > KEPT_MAX) cache.delete(cache.keys().next().value as string)
    }
    const { span, blocks } = cached
    const blockOf = (day: number): DailyValues | undefined =>
      blocks.find(({ firstDay, totals }) => day >= firstDay && day < firstDay + totals.length)
    const compute = async (day: number): Promise<DailyValues> => {
      const block = blockOf(day) ?? (await computeBlock(sources, scope, span, day))
      if (!blocks.includes(block)) blocks.push(block)
      return block
    }
    const { firstDay = today + 1, items } = span
    const cells = Math.min(BLOCK_CELLS, items * (today - firstDay + 1))
    return {
      /** Of the first transaction; undefined for an empty ledger. */
      firstDay: span.firstDay,
      /** The values from a day on: of all days up to another, or of as many as one request computes. */
      async read(from: number, to: number): Promise<DayValue[]> {
        const days: DayValue[] = Array(Math.max(0, Math.min(to, firstDay - 1) - from + 1)).fill(NOTHING)
        let computed = 0
        for (let day = from + days.length; day <= to; day++) {
          let block = blockOf(day)
          if (!block && computed === BLOCKS_COMPUTED) break
          if (!block) computed += 1
          block ??= await run(cells, () => compute(day))
          days.push(dayOf(block, day))
        }
        return days
      },
    }
  }
}

const dayOf = ({ firstDay, totals, positions, valued }: DailyValues, day: number): DayValue => ({
  total: totals[day - firstDay] as number,
  positions: positions[day - firstDay] as number,
  valued: valued[day - firstDay] as number,
})

/** The values of the block in which a day lies; of half of it, or less, where it has too many closes. */
async function computeBlock(
  { clickhouse, database, blockRows = BLOCK_ROWS }: DailySources,
  { portfolioId, currency, providers, today }: DailyScope,
  { firstDay: ledgerStart = today, items }: LedgerSpan,
  day: number,
): Promise<DailyValues> {
  const length = Math.max(1, Math.floor(BLOCK_CELLS / items))
  let firstDay = day - ((day - ledgerStart) % length)
  let lastDay = Math.min(today, firstDay + length - 1)
  for (;;) {
    const scope = { currency, providers, firstDay, lastDay }
    const movements = await readDayMovements(database, portfolioId, scope)
    const byItem = Map.groupBy(movements, ({ item_id }) => item_id)
    const counts = await countAll(clickhouse, scope, [...byItem.keys()])
    const rows = counts.values().reduce((sum, count) => sum + count, 0)
    if (rows <= blockRows || firstDay === lastDay) return valueBlock(clickhouse, scope, byItem, counts)
    const middle = Math.floor((firstDay + lastDay) / 2)
    if (day <= middle) lastDay = middle
    else firstDay = middle + 1
  }
}

async function valueBlock(
  clickhouse: ClickhouseReader,
  scope: CloseScope,
  byItem: ReadonlyMap<number, readonly DayMovement[]>,
  counts: ReadonlyMap<number, number>,
): Promise<DailyValues> {
  const values = noValues(scope.firstDay, scope.lastDay)
  const amountOn = await amountsOf(clickhouse, scope)
  let rows = 0
  for (const itemIds of portions([...byItem.keys()], counts)) {
    const closes = Map.groupBy(await readCloses(clickhouse, itemIds, scope), ({ item_id }) => item_id)
    for (const id of itemIds) {
      addItem(values, byItem.get(id) ?? [], closes.get(id) ?? [], amountOn)
      rows += values.totals.length + (counts.get(id) ?? 0)
      if (rows < ROWS_OF_A_TURN) continue
      await nextTurn()
      rows = 0
    }
  }
  return values
}

/** A close in its own currency keeps the price that its provider sent; all others take the rate of the day. */
async function amountsOf(clickhouse: ClickhouseReader, { currency, firstDay, lastDay }: CloseScope): Promise<AmountOn> {
  const rateAt = await readRates(clickhouse, currency, firstDay * DAY_MS)
  const rates = Array.from({ length: lastDay - firstDay + 1 }, (_, i) => rateAt((firstDay + i) * DAY_MS))
  return (micro, native, day) => {
    if (native >= 0) return native
    const rate = rates[day - firstDay] ?? rateAt(day * DAY_MS)
    const proposal = (micro * rate.approximate) / 10_000
    return proposal < EXACT_BELOW ? toMinor(micro, rate) : Number(minorDigits(micro, rate))
  }
}

async function countAll(
  clickhouse: ClickhouseReader,
  scope: CloseScope,
  itemIds: readonly number[],
): Promise<Map<number, number>> {
  const rowsOf = new Map<number, number>()
  for (let at = 0; at < itemIds.length; at += ITEMS_AT_ONCE) {
    const counted = await countCloses(clickhouse, itemIds.slice(at, at + ITEMS_AT_ONCE), scope)
    for (const [itemId, rows] of counted) rowsOf.set(itemId, rows)
  }
  return rowsOf
}

/** Splits items into portions of bounded size, by how many closes each has. */
function portions(itemIds: readonly number[], rowsOf: ReadonlyMap<number, number>): number[][] {
  const portioned: number[][] = []
  let [rows, portion]: [number, number[]] = [0, []]
  for (const id of [...itemIds].sort((a, b) => a - b)) {
    const more = rowsOf.get(id) ?? 0
    if (portion.length > 0 && (rows + more > ROWS_AT_ONCE || portion.length >= ITEMS_AT_ONCE)) {
      portioned.push(portion)
      ;[rows, portion] = [0, []]
    }
    portion.push(id)
    rows += more
  }
  if (portion.length > 0) portioned.push(portion)
  return portioned
}
