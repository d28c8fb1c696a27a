/**
 * The daily values of a portfolio.
 *
 * Reads the ledger (Postgres), daily closes and past exchange rates (ClickHouse); caches the values under the version of
 * the portfolio. Invariant: values of a page are those of the ledger as of the version that came with the request; closes
 * may be KEPT_MS old. Memory is bounded: closes are read for as many items at a time as have ROWS_AT_ONCE rows together, the
 * days before the window as one row per item and provider, and KEPT_MAX portfolios are kept.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { formatDay } from '#schemas/values/instant.ts'
import { minorDigits, toMinor } from '#schemas/values/money.ts'
import { UNPRICED } from '#schemas/views/clickhouse/provider-days.ts'
import {
  type AmountOn,
  addItem,
  type CloseSeries,
  type DailyValues,
  type DayMovement,
  noValues,
} from '#services/portfolios/values/reader.ts'
import { readRates } from './fx-days.ts'

/** What daily values are asked for. */
export interface DailyScope {
  portfolioId: string
  version: string
  currency: string
  /** All by default. */
  providers: readonly string[] | undefined
  /** Number of the day of now. */
  today: number
}

/** Computes daily values and caches them. */
export interface DailyReader {
  /** From the day of the first transaction to today; undefined for an empty ledger. */
  read(scope: DailyScope): Promise<DailyValues | undefined>
}

/** What the reader reads. */
export interface DailySources {
  clickhouse: ClickhouseReader
  movementsOf(portfolioId: string): Promise<{ item_id: number; day: number; units: number }[]>
  /** Monotonic, milliseconds. */
  clock: () => number
}

/** The closes of a provider for an item as they are stored: several of a day may wait for being merged. */
export interface CloseRow {
  item_id: number
  days: number[]
  /** -1 on a day that set no price. */
  micros: number[]
  /** Empty where none is in the currency that is asked for. */
  natives: number[]
  /** Empty where all are. */
  listed: (0 | 1)[]
  /** Empty where every day occurs once. */
  pricedVersions: number[]
  closingVersions: number[]
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
  for (const itemIds of await portions(clickhouse, scope, firstDay, [...byItem.keys()])) {
    const rows = await clickhouse.rows<CloseRow>(closesQuery(clickhouse.database, scope), {
      ...paramsOf(scope, itemIds),
      first: formatDay(firstDay * DAY_MS),
    })
    const rowsOf = Map.groupBy(rows, row => row.item_id)
    for (const id of itemIds) addItem(values, byItem.get(id) ?? [], (rowsOf.get(id) ?? []).map(seriesOf), amountOn)
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
  scope: DailyScope,
  firstDay: number,
  itemIds: readonly number[],
): Promise<number[][]> {
  const rowsOf = new Map<number, number>()
  for (let at = 0; at < itemIds.length; at += ITEMS_AT_ONCE) {
    const counted = await clickhouse.rows<{ item_id: number; rows: number }>(
      `SELECT item_id, countIf(day >= {first:Date}) + uniq(provider) AS rows
      FROM ${clickhouse.database}.provider_days WHERE ${conditionOf(scope)} GROUP BY item_id`,
      { ...paramsOf(scope, itemIds.slice(at, at + ITEMS_AT_ONCE)), first: formatDay(firstDay * DAY_MS) },
    )
    for (const { item_id, rows } of counted) rowsOf.set(item_id, rows)
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

/**
 * One row per item and provider, its closes as lists; of the days before the window the last one and the last that set a
 * price. Rows are grouped by item and provider alone and merged afterwards ({@link seriesOf}): 1.4 million closes took 20 s to
 * merge by day here, and take about one unmerged.
 */
function closesQuery(database: string, scope: DailyScope): string {
  const rows = `FROM ${database}.provider_days WHERE ${conditionOf(scope)}`
  const isPriced = `priced.version != ${UNPRICED}`
  const isNative = `${isPriced} AND priced.currency = {currency:String}`
  const merges = (version: string) => `if(count() = uniqExact(day), [], groupArray(${version}))`
  return `SELECT item_id, groupArray(toUInt16(day)) AS days,
    groupArray(if(${isPriced}, priced.price_micro_usd, -1)) AS micros,
    if(countIf(${isNative}) = 0, [], groupArray(if(${isNative}, priced.price, -1))) AS natives,
    if(countIf(NOT closing.listed) = 0, [], groupArray(toUInt8(closing.listed))) AS listed,
    ${merges('priced.version')} AS pricedVersions, ${merges('closing.version')} AS closingVersions
  ${rows} AND (day >= {first:Date} OR (item_id, provider, day) IN (
    SELECT item_id, provider, arrayJoin([max(day), maxIf(day, ${isPriced})])
    ${rows} AND day < {first:Date} GROUP BY item_id, provider))
  GROUP BY item_id, provider ORDER BY item_id, provider`
}

/** A provider's closes by ascending day: of several rows of a day the latest that set a price, and the latest of all. */
export function seriesOf(row: CloseRow): CloseSeries {
  const { days, pricedVersions, closingVersions } = row
  if (days.every((day, i) => i === 0 || day > (days[i - 1] as number))) return row
  const order = days.map((_, i) => i).sort((a, b) => (days[a] as number) - (days[b] as number))
  const series = { days: [] as number[], micros: [] as number[], natives: [] as number[], listed: [] as (0 | 1)[] }
  let [priced, closing] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (const i of order) {
    const last = series.days.length - 1
    const [micro, native, listed] = [row.micros[i] as number, row.natives[i] ?? -1, row.listed[i] ?? 1]
    if (series.days[last] !== days[i]) {
      series.days.push(days[i] as number)
      series.micros.push(micro)
      series.natives.push(native)
      series.listed.push(listed)
      priced = micro < 0 ? Number.NEGATIVE_INFINITY : (pricedVersions[i] ?? 0)
      closing = closingVersions[i] ?? 0
      continue
    }
    const [pricedNow, closingNow] = [pricedVersions[i] ?? 0, closingVersions[i] ?? 0]
    if (micro >= 0 && pricedNow > priced) {
      series.micros[last] = micro
      series.natives[last] = native
      priced = pricedNow
    }
    if (closingNow > closing) {
      series.listed[last] = listed
      closing = closingNow
    }
  }
  return series
}

const conditionOf = ({ providers }: DailyScope): string =>
  `side = 'ask' AND item_id IN {items:Array(UInt32)} AND day <= {last:Date}${
    providers ? ' AND provider IN {providers:Array(String)}' : ''
  }`

const paramsOf = ({ currency, providers, today }: DailyScope, items: readonly number[]) => ({
  ...{ items, currency, last: formatDay(today * DAY_MS) },
  ...(providers && { providers }),
})
