/**
 * Turns stored closes into the long daily history of an item: one close per provider and day.
 *
 * Pure. provider_days has rows of days on which something changed. Invariant: a day without change carries the last close
 * while the item stays listed; after a withdrawal there is no point until it is listed again, and a day that ends in a
 * withdrawal closes at its last price (DECISIONS.md, "History chart"). Of all phases of a finish a provider's cheapest
 * counts, their listings together.
 */
import type { PausingWork } from '#infra/runtime/turns.ts'

interface ChartSeries {
  /** Days since 1970. */
  day: number[]
  /** The row of {@link Chart.prices} with the price. */
  priceRow: number[]
  /** Listings, -1 where they are not known. */
  quantity: number[]
}

/** Closes by provider. Rows of numbers: a year of 41 providers has 15,000, and objects took four times as long. */
export interface Chart {
  prices: Pick<DayColumns, 'price' | 'price_micro_usd' | 'currency'>
  /** By provider's key, in their order; none is empty. */
  series: ReadonlyMap<string, ChartSeries>
}

export interface DayColumns extends Record<'provider' | 'currency', string[]> {
  item_id: number[]
  /** Days since 1970. */
  day: number[]
  /** 1 where the row set a price. */
  is_priced: number[]
  price: number[]
  price_micro_usd: number[]
  /** 1 where it ended listed. */
  listed: number[]
  quantity: number[]
}

interface DayWindow {
  start_day: number
  end_day: number
}

/** Points that are composed between two pauses. */
const POINTS_AT_ONCE = 20_000

/** Composes the closes of each of the providers with at least one; a stored day before the window is where it begins. */
export function* composeChart(days: DayColumns, window: DayWindow): PausingWork<Chart> {
  const { provider, item_id, day } = days
  const series = new Map<string, ChartSeries>()
  let composed = 0
  for (let from = 0, to = 0; from < day.length; from = to) {
    while (provider[to] === provider[from] && item_id[to] === item_id[from]) to++
    const key = provider[from] as string
    const phase = carried(days, from, to, window)
    const others = series.get(key)
    if (phase.day.length > 0) series.set(key, others ? mergePhases(others, phase, days) : phase)
    composed += phase.day.length
    if (composed < POINTS_AT_ONCE) continue
    composed = 0
    yield
  }
  return { prices: days, series }
}

function carried(days: DayColumns, from: number, to: number, { start_day, end_day }: DayWindow): ChartSeries {
  const series: ChartSeries = { day: [], priceRow: [], quantity: [] }
  let priceRow = -1
  for (let row = from; row < to; row++) {
    if (days.is_priced[row] === 1) priceRow = row
    if (priceRow < 0) continue
    const closed = days.day[row] as number
    const next = row + 1 < to ? (days.day[row + 1] as number) : end_day
    // A withdrawal ends what is carried; its own day still closes at the last price.
    const until = days.listed[row] === 1 ? next : closed + 1
    const quantity = days.quantity[row] as number
    for (let shown = Math.max(closed, start_day); shown < until; shown++) add(series, shown, priceRow, quantity)
  }
  return series
}

function add({ day, priceRow, quantity }: ChartSeries, shown: number, row: number, units: number): void {
  day.push(shown)
  priceRow.push(row)
  quantity.push(units)
}

/** The cheaper of two phases on each day, their listings together. */
function mergePhases(one: ChartSeries, other: ChartSeries, { price_micro_usd: micro }: DayColumns): ChartSeries {
  const days = new Map<number, { row: number; units: number }>()
  for (const { day, priceRow, quantity } of [one, other]) {
    for (const [i, shown] of day.entries()) {
      const [row, units] = [priceRow[i] as number, quantity[i] as number]
      const before = days.get(shown)
      const isCheaper = before === undefined || (micro[row] as number) < (micro[before.row] as number)
      const sum = before === undefined ? units : before.units < 0 || units < 0 ? -1 : before.units + units
      days.set(shown, { row: isCheaper ? row : before.row, units: sum })
    }
  }
  const merged: ChartSeries = { day: [], priceRow: [], quantity: [] }
  for (const [shown, { row, units }] of [...days].sort(([a], [b]) => a - b)) add(merged, shown, row, units)
  return merged
}
