/**
 * The long daily history of an item: one close per provider and day.
 *
 * Reads the ClickHouse table provider_days (writer: streams/history), which has rows of days on which something
 * changed. Invariant: a day without change carries the last close while the item stays listed; after a withdrawal there
 * is no point until it is listed again, and a day that ends in a withdrawal closes at its last price (decisions.md, "History
 * chart"). Of all phases of a finish a provider's cheapest counts, their listings together.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { Provider } from '#infra/config/providers.ts'
import type { HistoryChartQuery } from '#schemas/api/market.ts'
import { parseInstant } from '#schemas/values/instant.ts'
import type { MicroUsd, Minor } from '#schemas/values/money.ts'
import { selectDayColumns } from '#schemas/views/clickhouse/provider-days.ts'

/** A provider's close of a day. */
export interface DayPoint {
  /** Start of the day. */
  day: number
  price: Minor
  price_micro_usd: MicroUsd
  currency: string
  /** Null where it is not known. */
  quantity: number | null
}

/** The days to show: whole UTC days, half-open. */
export interface ChartWindow {
  start: number
  end: number
}

/** The changed days of one provider and item, oldest first, column by column. */
interface DayColumns {
  provider: string
  item_id: number
  /** Days since 1970. */
  days: number[]
  /** Null on a day that set no price. */
  prices: (Minor | null)[]
  micros: (MicroUsd | null)[]
  currencies: (string | null)[]
  quantities: number[]
  listed: (boolean | 0 | 1)[]
}

const DAY_MS = 86_400_000
const DEFAULT_DAYS = 365

/** The window of a request at a time; a start or end within a day takes the whole day. */
export function chartWindow(query: Pick<HistoryChartQuery, 'start' | 'end' | 'lookback'>, now: number): ChartWindow {
  const end = Math.min(parseInstant(query.end ?? '') ?? now, now)
  const given = query.lookback === undefined ? parseInstant(query.start ?? '') : end - query.lookback * DAY_MS
  const start = given ?? end - DEFAULT_DAYS * DAY_MS
  return { start: Math.floor(start / DAY_MS) * DAY_MS, end: Math.ceil(end / DAY_MS) * DAY_MS }
}

/** The providers to show: those asked for, all when none is, the defunct ones only when they are wanted. */
export function chartProviders(
  providers: readonly Provider[],
  query: Pick<HistoryChartQuery, 'providers' | 'include_defunct'>,
): string[] {
  return providers
    .filter(({ key, is_defunct }) => (query.providers?.includes(key) ?? true) && (query.include_defunct || !is_defunct))
    .map(({ key }) => key)
}

/** Reads the closes of each provider with at least one, by key. */
export async function readChart(
  clickhouse: ClickhouseReader,
  itemIds: readonly number[],
  providers: readonly string[],
  window: ChartWindow,
): Promise<Map<string, DayPoint[]>> {
  const rows = await clickhouse.rows<DayColumns>(selectDayColumns(clickhouse.database), {
    items: itemIds,
    providers,
    start_day: window.start / DAY_MS,
    end_day: window.end / DAY_MS,
  })
  const series = new Map<string, DayPoint[]>()
  for (const [provider, columns] of Map.groupBy(rows, row => row.provider)) {
    const points = columns.map(one => carried(one, window))
    const merged = points.length === 1 ? (points[0] as DayPoint[]) : mergePhases(points)
    if (merged.length > 0) series.set(provider, merged)
  }
  return new Map([...series].sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** A point for every day on which the item was listed, the price of the last change carried on. */
function carried(columns: DayColumns, { start, end }: ChartWindow): DayPoint[] {
  const points: DayPoint[] = []
  let last: Omit<DayPoint, 'day'> | undefined
  let isListed = false
  let next = 0
  const first = start / DAY_MS
  for (let day = Math.min(first, columns.days[0] ?? first); day < end / DAY_MS; day++) {
    const isChanged = columns.days[next] === day
    if (isChanged) {
      last = closeOf(columns, next, last)
      isListed = Boolean(columns.listed[next])
      next += 1
    } else if (!isListed && (columns.days[next] ?? Number.POSITIVE_INFINITY) > day) {
      // Nothing stands until the next change.
      day = Math.min(columns.days[next] ?? end / DAY_MS, end / DAY_MS) - 1
      continue
    }
    if (last && day >= first) points.push({ day: day * DAY_MS, ...last })
  }
  return points
}

function closeOf(
  columns: DayColumns,
  at: number,
  before: Omit<DayPoint, 'day'> | undefined,
): Omit<DayPoint, 'day'> | undefined {
  const quantity = columns.quantities[at] as number
  const known = quantity < 0 ? null : quantity
  const [price, micro, currency] = [columns.prices[at], columns.micros[at], columns.currencies[at]]
  if (price === null || price === undefined || micro === null || micro === undefined || !currency) {
    return before && { ...before, quantity: known }
  }
  return { price, price_micro_usd: micro, currency, quantity: known }
}

function mergePhases(phases: readonly DayPoint[][]): DayPoint[] {
  const days = new Map<number, DayPoint>()
  for (const point of phases.flat()) {
    const other = days.get(point.day)
    if (!other) {
      days.set(point.day, point)
      continue
    }
    const cheaper = point.price_micro_usd < other.price_micro_usd ? point : other
    const known = point.quantity !== null && other.quantity !== null
    days.set(point.day, { ...cheaper, quantity: known ? (point.quantity ?? 0) + (other.quantity ?? 0) : null })
  }
  return [...days.values()].sort((a, b) => a.day - b.day)
}
