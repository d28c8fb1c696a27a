/**
 * The daily values of a portfolio.
 *
 * Reads the ledger (Postgres), daily closes and past exchange rates (ClickHouse); caches the values under the version of
 * the portfolio. Invariant: values of a page are those of the ledger as of the version that came with the request; closes
 * may be KEPT_MS old. Memory is bounded: closes are read for as many items at a time as have ROWS_AT_ONCE rows together, the
 * days before the window as one row per item and provider, and KEPT_MAX portfolios are kept.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { minorDigits, toMinor } from '#schemas/values/money.ts'
import {
  type AmountOn,
  addItem,
  type DailyValues,
  type DayMovement,
  noValues,
} from '#services/portfolios/values/reader.ts'
import { type CloseScope, countCloses, readCloses } from '#streams/history/reader.ts'
import { readRates } from './fx-rates.ts'

/** What daily values are asked for. */
interface DailyScope {
  portfolioId: string
  version: string
  currency: string
  /** All by default. */
  providers: readonly string[] | undefined
  /** Number of the day of now. */
  today: number
}

/** Computes daily values and caches them. */
interface DailyReader {
  /** From the day of the first transaction to today; undefined for an empty ledger. */
  read(scope: DailyScope): Promise<DailyValues | undefined>
}

/** What the reader reads. */
interface DailySources {
  clickhouse: ClickhouseReader
  movementsOf(portfolioId: string): Promise<{ item_id: number; day: number; units: number }[]>
  /** Monotonic, milliseconds. */
  clock: () => number
}

/** Milliseconds of a day. */
export const DAY_MS = 86_400_000
/** Short, since today's close still changes. */
const KEPT_MS = 60_000
const KEPT_MAX = 128
/** Of about 40 bytes each while they are read. */
const ROWS_AT_ONCE = 400_000
/** Ids are sent in the URL of a query, which may have a megabyte. */
const ITEMS_AT_ONCE = 5_000
/** 2^40: above, a double might round a hundredth away. */
const EXACT_BELOW = 2 ** 40

interface Kept {
  at: number
  values: Promise<DailyValues | undefined>
}

/** Opens the reader. */
export function openDailyReader(sources: DailySources): DailyReader {
  const kept = new Map<string, Kept>()
  return {
    read(scope) {
      const { portfolioId, version, currency, providers, today } = scope
      const key = [portfolioId, version, currency, today, providers?.join()].join('|')
      const known = kept.get(key)
      if (known && sources.clock() - known.at < KEPT_MS) return known.values
      const values = workOut(sources, scope)
      const mine = { at: sources.clock(), values }
      kept.delete(key)
      kept.set(key, mine)
      values.catch(() => kept.get(key) === mine && kept.delete(key))
      const [oldest] = kept.keys()
      if (kept.size > KEPT_MAX && oldest !== undefined) kept.delete(oldest)
      return values
    },
  }
}

async function workOut(sources: DailySources, scope: DailyScope): Promise<DailyValues | undefined> {
  const { clickhouse } = sources
  const movements = await sources.movementsOf(scope.portfolioId)
  if (movements.length === 0) return undefined
  const firstDay = movements.reduce((first, { day }) => Math.min(first, day), scope.today)
  const values = noValues(firstDay, scope.today)
  const byItem = Map.groupBy(movements, ({ item_id }) => item_id) as Map<number, DayMovement[]>
  const amountOn = await amountsOf(clickhouse, scope, firstDay)
  const wanted = { currency: scope.currency, providers: scope.providers, firstDay, lastDay: scope.today }
  for (const itemIds of await portions(clickhouse, wanted, [...byItem.keys()])) {
    const closes = Map.groupBy(await readCloses(clickhouse, itemIds, wanted), ({ item_id }) => item_id)
    for (const id of itemIds) addItem(values, byItem.get(id) ?? [], closes.get(id) ?? [], amountOn)
  }
  return values
}

/** A close in its own currency keeps the price that its provider sent; all others take the rate of the day. */
async function amountsOf(clickhouse: ClickhouseReader, scope: DailyScope, firstDay: number): Promise<AmountOn> {
  const rateAt = await readRates(clickhouse, scope.currency, firstDay * DAY_MS)
  const rates = Array.from({ length: Math.max(1, scope.today - firstDay + 1) }, (_, i) =>
    rateAt((firstDay + i) * DAY_MS),
  )
  return (micro, native, day) => {
    if (native >= 0) return native
    const rate = rates[day - firstDay] ?? rateAt(day * DAY_MS)
    const proposal = (micro * rate.approximate) / 10_000
    return proposal < EXACT_BELOW ? toMinor(micro, rate) : Number(minorDigits(micro, rate))
  }
}

/** Splits items into portions of bounded size, by how many closes each has. */
async function portions(
  clickhouse: ClickhouseReader,
  scope: CloseScope,
  itemIds: readonly number[],
): Promise<number[][]> {
  const rowsOf = new Map<number, number>()
  for (let at = 0; at < itemIds.length; at += ITEMS_AT_ONCE) {
    const counted = await countCloses(clickhouse, itemIds.slice(at, at + ITEMS_AT_ONCE), scope)
    for (const [itemId, rows] of counted) rowsOf.set(itemId, rows)
  }
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
  portioned.push(portion)
  return portioned
}
