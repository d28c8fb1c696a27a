/**
 * Reads daily closes of many items as lists, for the values of portfolios.
 *
 * Rows of a day that ClickHouse has not merged yet are merged here, by the same versions.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { DAY_MS, formatDay } from '#schemas/values/instant.ts'
import { UNPRICED } from './table.ts'

/** Which closes are asked for, with days since 1970, both ends included. */
export interface CloseScope {
  currency: string
  providers: readonly string[] | undefined
  firstDay: number
  lastDay: number
}

/** A provider's closes for an item, by ascending day. */
interface ItemCloses {
  item_id: number
  /** Since 1970. */
  days: number[]
  /** Micro-dollars; -1 on a day that set no price. */
  micros: number[]
  /** In the currency that is asked for, -1 where it is another; empty where none is in it. */
  natives: number[]
  /** Empty where all are. */
  listed: (0 | 1)[]
}

interface CloseRow extends ItemCloses {
  /** Empty where every day occurs once. */
  pricedVersions: number[]
  closingVersions: number[]
}

/** How many rows {@link readCloses} reads of each item; items without any are left out. */
export async function countCloses(
  clickhouse: ClickhouseReader,
  itemIds: readonly number[],
  scope: CloseScope,
): Promise<Map<number, number>> {
  const rows = await clickhouse.rows<{ item_id: number; rows: number }>(
    `SELECT item_id, countIf(day >= {first:Date}) + uniq(provider) AS rows
    FROM ${clickhouse.database}.provider_days WHERE ${conditionOf(scope)} GROUP BY item_id`,
    paramsOf(scope, itemIds),
  )
  return new Map(rows.map(({ item_id, rows }) => [item_id, rows]))
}

/** Reads the closes of the days of a window, and of the days before it those that are current on its first. */
export async function readCloses(
  clickhouse: ClickhouseReader,
  itemIds: readonly number[],
  scope: CloseScope,
): Promise<ItemCloses[]> {
  const rows = await clickhouse.rows<CloseRow>(selectCloses(clickhouse.database, scope), paramsOf(scope, itemIds))
  return rows.map(mergeDays)
}

/**
 * One row per item and provider, its closes as lists; of the days before the window the last one and the last that set a
 * price. Rows are grouped by item and provider alone and merged by {@link mergeDays}: 1.4 million closes took 20 s to
 * merge by day here, and take about one unmerged.
 */
function selectCloses(database: string, scope: CloseScope): string {
  const rows = `FROM ${database}.provider_days WHERE ${conditionOf(scope)}`
  const isPriced = `priced.version != ${UNPRICED}`
  const isNative = `${isPriced} AND priced.currency = {currency:String}`
  const mergedBy = (version: string): string => `if(count() = uniqExact(day), [], groupArray(${version}))`
  return `SELECT item_id, groupArray(toUInt16(day)) AS days,
    groupArray(if(${isPriced}, priced.price_micro_usd, -1)) AS micros,
    if(countIf(${isNative}) = 0, [], groupArray(if(${isNative}, priced.price, -1))) AS natives,
    if(countIf(NOT closing.listed) = 0, [], groupArray(toUInt8(closing.listed))) AS listed,
    ${mergedBy('priced.version')} AS pricedVersions, ${mergedBy('closing.version')} AS closingVersions
  ${rows} AND (day >= {first:Date} OR (item_id, provider, day) IN (
    SELECT item_id, provider, arrayJoin([max(day), maxIf(day, ${isPriced})])
    ${rows} AND day < {first:Date} GROUP BY item_id, provider))
  GROUP BY item_id, provider ORDER BY item_id, provider`
}

/** A provider's closes by ascending day: of several rows of a day the latest that set a price, and the latest of all. */
function mergeDays(row: CloseRow): ItemCloses {
  const { days, pricedVersions, closingVersions } = row
  if (days.every((day, i) => i === 0 || day > (days[i - 1] as number))) return row
  const order = days.map((_, i) => i).sort((a, b) => (days[a] as number) - (days[b] as number))
  const { item_id } = row
  const series: ItemCloses = { item_id, days: [], micros: [], natives: [], listed: [] }
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

const conditionOf = ({ providers }: CloseScope): string =>
  `side = 'ask' AND item_id IN {items:Array(UInt32)} AND day <= {last:Date}${
    providers ? ' AND provider IN {providers:Array(String)}' : ''
  }`

const paramsOf = ({ currency, providers, firstDay, lastDay }: CloseScope, items: readonly number[]) => ({
  items,
  currency,
  first: formatDay(firstDay * DAY_MS),
  last: formatDay(lastDay * DAY_MS),
  ...(providers && { providers }),
})
