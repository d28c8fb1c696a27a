/**
 * The long daily history of an item: one close per provider and day.
 *
 * Reads the ClickHouse table provider_days (writer: streams/history), which has rows of days on which something
 * changed. Invariant: a day without change carries the last close while the item stays listed; after a withdrawal there
 * is no point until it is listed again, and a day that ends in a withdrawal closes at its last price (decisions.md, "History
 * chart"). Of all phases of a finish a provider's cheapest counts, their listings together.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { RowOf } from '#infra/clickhouse/column-rows.ts'
import type { Provider } from '#infra/config/providers.ts'
import type { HistoryChartQuery } from '#schemas/api/market.ts'
import { parseInstant } from '#schemas/values/instant.ts'
import type { MicroUsd, Minor } from '#schemas/values/money.ts'
import { DAY_SHAPE, selectDayColumns } from '#schemas/views/clickhouse/provider-days.ts'

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

/** The changed days of one provider and item, column by column, in no order. */
type DayColumns = RowOf<typeof DAY_SHAPE>

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
  const rows = await clickhouse.columnRows(selectDayColumns(clickhouse.database), DAY_SHAPE, {
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
  const [first, after] = [start / DAY_MS, end / DAY_MS]
  const changes = Array.from(columns.days, (day, at) => ({ day, at })).sort((a, b) => a.day - b.day)
  let close: Omit<DayPoint, 'day'> | undefined
  for (const [i, { day, at }] of changes.entries()) {
    close = closeOf(columns, at, close)
    if (!close) continue
    const next = Math.min(changes[i + 1]?.day ?? after, after)
    // A withdrawal ends what is carried; its own day still closes at the last price.
    const until = columns.listed[at] ? next : Math.min(day + 1, next)
    for (let shown = Math.max(day, first); shown < until; shown++) points.push({ day: shown * DAY_MS, ...close })
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
  if (columns.unpriced[at]) return before && { ...before, quantity: known }
  return {
    price: columns.prices[at] as number,
    price_micro_usd: columns.micros[at] as number,
    currency: columns.currencies[at] as string,
    quantity: known,
  }
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
