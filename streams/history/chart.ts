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

/** By row; `day` counts from 1970, `is_priced` is 1 where the row set a price, `listed` where it ended listed. */
export interface DayColumns
  extends Record<'provider' | 'currency', readonly string[]>,
    Record<'item_id' | 'day' | 'is_priced' | 'price' | 'price_micro_usd' | 'listed' | 'quantity', ArrayLike<number>> {}

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
  const merged: ChartSeries = { day: [], priceRow: [], quantity: [] }
  const copy = (from: ChartSeries, i: number) =>
    add(merged, from.day[i] as number, from.priceRow[i] as number, from.quantity[i] as number)
  let next = 0
  for (const [i, shown] of one.day.entries()) {
    while ((other.day[next] as number) < shown) copy(other, next++)
    if (other.day[next] !== shown) {
      copy(one, i)
      continue
    }
    const [row, otherRow] = [one.priceRow[i] as number, other.priceRow[next] as number]
    const [units, otherUnits] = [one.quantity[i] as number, other.quantity[next++] as number]
    const isCheaper = (micro[otherRow] as number) < (micro[row] as number)
    add(merged, shown, isCheaper ? otherRow : row, units < 0 || otherUnits < 0 ? -1 : units + otherUnits)
  }
  while (next < other.day.length) copy(other, next++)
  return merged
}
