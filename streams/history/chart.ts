/**
 * Turns stored closes into the long daily history of an item: one close per provider and day.
 *
 * Pure. provider_days has rows of days on which something changed. Invariant: a day without change carries the last close
 * while the item stays listed; after a withdrawal there is no point until it is listed again, and a day that ends in a
 * withdrawal closes at its last price (DECISIONS.md, "History chart"). Of all phases of a finish a provider's cheapest
 * counts, their listings together.
 */
import type { ColumnsOf } from '#infra/clickhouse/native-columns.ts'
import type { PausingWork } from '#infra/runtime/turns.ts'
import { type DAY_SHAPE, UNPRICED } from './table.ts'

export interface ChartSeries {
  /** Days since 1970. */
  day: number[]
  /** The row of {@link Chart.prices} with the price. */
  priceRow: number[]
  /** Listings, -1 where they are not known. */
  quantity: number[]
}

/** Closes by provider. Rows of numbers: a year of 41 providers has 15,000, and objects took four times as long. */
export interface Chart {
  prices: DayColumns['priced']
  /** By provider's key, in their order; none is empty. */
  series: ReadonlyMap<string, ChartSeries>
}

type DayColumns = ColumnsOf<typeof DAY_SHAPE>

interface DayWindow {
  start_day: number
  end_day: number
}

/** Points that are composed, and rows that are grouped, between two pauses. */
const [POINTS_AT_ONCE, ROWS_AT_ONCE] = [20_000, 200_000]

/** Composes the closes of each of the providers with at least one; a stored day before the window is where it begins. */
export function* composeChart(days: DayColumns, providers: readonly string[], window: DayWindow): PausingWork<Chart> {
  const wanted = new Set(providers)
  const rows = [...(yield* rowsOf(days))].filter(([provider]) => wanted.has(provider))
  const series: [string, ChartSeries][] = []
  let composed = 0
  for (const [provider, ofItems] of rows) {
    const phases = [...ofItems.values()].map(rows => carried(rowPerDay(rows, days), days, window))
    series.push([provider, phases.length === 1 ? (phases[0] as ChartSeries) : mergePhases(phases, days)])
    composed += phases.reduce((sum, { day }) => sum + day.length, 0)
    if (composed < POINTS_AT_ONCE) continue
    composed = 0
    yield
  }
  return {
    prices: days.priced,
    series: new Map(series.filter(([, { day }]) => day.length > 0).sort(([a], [b]) => (a < b ? -1 : 1))),
  }
}

/** The rows of each provider and item, as they were read: a provider at a time. */
function* rowsOf({ provider, item_id }: DayColumns): PausingWork<Map<string, Map<number, number[]>>> {
  const rows = new Map<string, Map<number, number[]>>()
  let own: number[] = []
  for (let row = 0; row < provider.length; row++) {
    if (row === 0 || provider[row] !== provider[row - 1] || item_id[row] !== item_id[row - 1]) {
      const ofItems = within(rows, provider[row] as string, () => new Map<number, number[]>())
      own = within(ofItems, item_id[row] as number, () => [])
    }
    own.push(row)
    if (row % ROWS_AT_ONCE === ROWS_AT_ONCE - 1) yield
  }
  return rows
}

function within<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const found = map.get(key) ?? make()
  map.set(key, found)
  return found
}

/** For each day in order the row of its price, and the row of its close. */
interface DayRows {
  priced: readonly number[]
  closing: readonly number[]
}

/** Orders rows by their days; of several rows of a day the price of the one, and the close of the one, counts that came last. */
function rowPerDay(rows: number[], { day, priced, closing }: DayColumns): DayRows {
  const isInOrder = rows.every((row, i) => i === 0 || (day[rows[i - 1] as number] as number) < (day[row] as number))
  if (isInOrder) return { priced: rows, closing: rows }
  const newest = (version: Float64Array, a: number, b: number): number =>
    (version[a] as number) > (version[b] as number) ? a : b
  const ordered = { priced: [] as number[], closing: [] as number[] }
  for (const row of rows.sort((a, b) => (day[a] as number) - (day[b] as number))) {
    const last = ordered.closing.length - 1
    const [price, close] = [ordered.priced[last], ordered.closing[last]]
    if (price !== undefined && close !== undefined && day[close] === day[row]) {
      ordered.priced[last] = newest(priced.version, price, row)
      ordered.closing[last] = newest(closing.version, close, row)
    } else {
      ordered.priced.push(row)
      ordered.closing.push(row)
    }
  }
  return ordered
}

function carried(rows: DayRows, { day, priced, closing }: DayColumns, { start_day, end_day }: DayWindow): ChartSeries {
  const series: ChartSeries = { day: [], priceRow: [], quantity: [] }
  let priceRow = -1
  for (let i = 0; i < rows.closing.length; i++) {
    const [set, close] = [rows.priced[i] as number, rows.closing[i] as number]
    if (priced.version[set] !== UNPRICED) priceRow = set
    if (priceRow < 0) continue
    const closed = day[close] as number
    const next = Math.min(day[rows.closing[i + 1] ?? -1] ?? end_day, end_day)
    // A withdrawal ends what is carried; its own day still closes at the last price.
    const until = closing.listed[close] === 1 ? next : Math.min(closed + 1, next)
    const quantity = closing.quantity[close] as number
    for (let shown = Math.max(closed, start_day); shown < until; shown++) add(series, shown, priceRow, quantity)
  }
  return series
}

function add({ day, priceRow, quantity }: ChartSeries, shown: number, row: number, units: number): void {
  day.push(shown)
  priceRow.push(row)
  quantity.push(units)
}

/** The cheapest of several phases on each day, their listings together. */
function mergePhases(phases: readonly ChartSeries[], { priced }: DayColumns): ChartSeries {
  const days = new Map<number, { row: number; units: number }>()
  for (const { day, priceRow, quantity } of phases) {
    for (const [i, shown] of day.entries()) {
      const [row, units] = [priceRow[i] as number, quantity[i] as number]
      const other = days.get(shown)
      if (!other) {
        days.set(shown, { row, units })
        continue
      }
      if ((priced.price_micro_usd[row] as number) < (priced.price_micro_usd[other.row] as number)) other.row = row
      other.units = units < 0 || other.units < 0 ? -1 : other.units + units
    }
  }
  const merged: ChartSeries = { day: [], priceRow: [], quantity: [] }
  for (const [shown, { row, units }] of [...days].sort(([a], [b]) => a - b)) add(merged, shown, row, units)
  return merged
}
