/**
 * The long daily history of an item: one close per provider and day.
 *
 * Reads the ClickHouse table provider_days (writer: streams/history), which has rows of days on which something
 * changed. Invariant: a day without change carries the last close while the item stays listed; after a withdrawal there
 * is no point until it is listed again, and a day that ends in a withdrawal closes at its last price (decisions.md, "History
 * chart"). Of all phases of a finish a provider's cheapest counts, their listings together.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { ColumnsOf } from '#infra/clickhouse/native-columns.ts'
import type { Provider } from '#infra/config/providers.ts'
import type { HistoryChartQuery } from '#schemas/api/market.ts'
import { parseInstant } from '#schemas/values/instant.ts'
import type { MicroUsd, Minor } from '#schemas/values/money.ts'
import {
  DAY_SHAPE,
  type DayColumnsParams,
  selectDayColumns,
  UNPRICED,
} from '#schemas/views/clickhouse/provider-days.ts'

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

/** How one provider's ask for one item closed a day on which it changed. */
interface DayClose {
  day: number
  /** Versions decide between the rows of one day. */
  pricedVersion: number
  closingVersion: number
  price: Minor
  micro: MicroUsd
  currency: string
  /** -1 where it is not known. */
  quantity: number
  listed: boolean
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
  const days: DayColumnsParams = {
    items: itemIds,
    providers,
    start_day: window.start / DAY_MS,
    end_day: window.end / DAY_MS,
  }
  const read = await Promise.all(
    (['within', 'before'] as const).map(which =>
      clickhouse.columns(selectDayColumns(clickhouse.database, which), DAY_SHAPE, days),
    ),
  )
  const series = new Map<string, DayPoint[]>()
  for (const [provider, ofItems] of closesOf(read)) {
    const points = [...ofItems.values()].map(closes => carried(onePerDay(closes), window))
    const merged = points.length === 1 ? (points[0] as DayPoint[]) : mergePhases(points)
    if (merged.length > 0) series.set(provider, merged)
  }
  return new Map([...series].sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** By provider and item, as they were read. */
type Closes = Map<string, Map<number, DayClose[]>>

/** The closes of stored rows, which come a provider at a time. */
function closesOf(read: readonly ColumnsOf<typeof DAY_SHAPE>[]): Closes {
  const closes: Closes = new Map()
  for (const { provider, item_id, day, priced, closing } of read) {
    let [name, item]: [string?, number?] = []
    let own: DayClose[] = []
    for (let row = 0; row < day.length; row++) {
      if (provider[row] !== name || item_id[row] !== item) {
        ;[name, item] = [provider[row] as string, item_id[row] as number]
        own = within(
          within(closes, name, () => new Map<number, DayClose[]>()),
          item,
          () => [],
        )
      }
      own.push({
        day: day[row] as number,
        pricedVersion: priced.version[row] as number,
        closingVersion: closing.version[row] as number,
        price: priced.price[row] as number,
        micro: priced.price_micro_usd[row] as number,
        currency: priced.currency[row] as string,
        quantity: closing.quantity[row] as number,
        listed: closing.listed[row] === 1,
      })
    }
  }
  return closes
}

/** Closes in the order of their days, those of several rows of a day as one. */
function onePerDay(closes: DayClose[]): DayClose[] {
  const ordered: DayClose[] = []
  for (const close of closes.sort((a, b) => a.day - b.day)) {
    const last = ordered.at(-1)
    if (last?.day === close.day) ordered[ordered.length - 1] = newestOf(last, close)
    else ordered.push(close)
  }
  return ordered
}

function within<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const found = map.get(key) ?? make()
  map.set(key, found)
  return found
}

/** Of two rows of a day the price of the one, and the close of the one, that came later. */
function newestOf(a: DayClose, b: DayClose): DayClose {
  const { pricedVersion, price, micro, currency } = a.pricedVersion > b.pricedVersion ? a : b
  const { closingVersion, quantity, listed } = a.closingVersion > b.closingVersion ? a : b
  return { day: a.day, pricedVersion, price, micro, currency, closingVersion, quantity, listed }
}

/** A point for every day on which the item was listed, the price of the last change carried on. */
function carried(closes: readonly DayClose[], { start, end }: ChartWindow): DayPoint[] {
  const points: DayPoint[] = []
  const [first, after] = [start / DAY_MS, end / DAY_MS]
  let point: Omit<DayPoint, 'day'> | undefined
  for (const [i, close] of closes.entries()) {
    point = pointOf(close, point)
    if (!point) continue
    const next = Math.min(closes[i + 1]?.day ?? after, after)
    // A withdrawal ends what is carried; its own day still closes at the last price.
    const until = close.listed ? next : Math.min(close.day + 1, next)
    for (let shown = Math.max(close.day, first); shown < until; shown++) points.push({ day: shown * DAY_MS, ...point })
  }
  return points
}

function pointOf(close: DayClose, before: Omit<DayPoint, 'day'> | undefined): Omit<DayPoint, 'day'> | undefined {
  const quantity = close.quantity < 0 ? null : close.quantity
  if (close.pricedVersion === UNPRICED) return before && { ...before, quantity }
  return { price: close.price, price_micro_usd: close.micro, currency: close.currency, quantity }
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
