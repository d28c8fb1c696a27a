/**
 * Computes and publishes: an arbitrage snapshot every few seconds, a summary of the market every few minutes.
 *
 * Reads the board, ClickHouse and provider health; writes market.summaries and the views. The moment is an argument, so
 * that the same log and moment give the same figures. Figures of past moments that cannot change any more (those of 7
 * and 30 days, and of completed hours) are read once an hour: they scan weeks of changes. So windows of 7 and 30
 * days begin at a full hour. Invariant: a summary's view is written only after the log holds the summary.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { AnalyticsConfig } from '#infra/config/analytics.ts'
import type { ProviderRegistry } from '#infra/config/providers.ts'
import type { SupplyEstimates } from '#infra/config/supply.ts'
import type { Redis } from '#infra/redis/redis.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import type { ItemSummarised } from '#schemas/events/market-summary.ts'
import type { Instant } from '#schemas/values/instant.ts'
import type { MicroUsd } from '#schemas/values/money.ts'
import { arbitrageFees } from '#schemas/views/arbitrage.ts'
import type { SummarisedItem } from '#schemas/views/item-summary.ts'
import { healthKey, healthNextKey, type StoredHealth } from '#schemas/views/provider-health.ts'
import { computeArbitrage } from './arbitrage.ts'
import type { Board } from './board.ts'
import { type Exclusion, excludedProviders } from './excluded-providers.ts'
import { type ByItem, hourOf, readAsksAt, readHourlyCloses, readSales, readUnits } from './past-asks.ts'
import { type Past, summarise } from './summarise.ts'
import { summaryBody } from './summary-body.ts'
import type { SummaryLog } from './summary-log.ts'
import type { MarketViewWriter } from './view-writer.ts'

/** What the analyst works with. */
export interface AnalystParts {
  board: Board
  redis: Redis
  prefix: string
  clickhouse: ClickhouseReader
  catalog: CatalogReader
  registry: ProviderRegistry
  analytics: AnalyticsConfig
  supply: SupplyEstimates
  log: SummaryLog
  views: MarketViewWriter
}

/** Computes for a moment. */
export interface Analyst {
  /** Writes the arbitrage snapshot of a moment; resolves with its number of rows. */
  arbitrage(asOf: Instant): Promise<number>
  /** Publishes and writes the summary of a moment; resolves with the items that changed. */
  summary(asOf: Instant): Promise<number>
  /** Writes the view of the summary that the log ends with, if it ends with a whole one. */
  restore(): Promise<void>
}

/** What is read once an hour. */
interface HourlyPast {
  hour: Instant
  ask7d: ByItem<MicroUsd>
  ask30d: ByItem<MicroUsd>
  /** Units of 7 and 30 days up to the hour. */
  units: ByItem<readonly number[]>
  hourlyCloses: ByItem<readonly number[]>
}

const DAY_MS = 86_400_000

/** Opens the analyst. */
export function openAnalyst(parts: AnalystParts): Analyst {
  const { board, catalog, registry, views } = parts
  const fees = new Map(registry.all.map(({ key, fees }) => [key, arbitrageFees(fees)]))
  let hourly: HourlyPast | undefined
  const writeView = async (items: readonly ItemSummarised[], asOf: Instant): Promise<void> =>
    views.writeSummary(await summaryBody(shownItems(parts, items), asOf))
  return {
    async arbitrage(asOf) {
      const snapshot = computeArbitrage(board, { asOf, excluded: await readExcluded(parts, asOf), fees })
      await views.writeArbitrage(snapshot)
      return snapshot.columns.rows
    },
    async summary(asOf) {
      const down = new Set(
        [...(await readExcluded(parts, asOf))].flatMap(([key, why]) => (why === 'down' ? [key] : [])),
      )
      const hour = hourOf(asOf)
      if (hourly?.hour !== hour) hourly = await readHourly(parts, hour)
      const past = await readPast(parts, hourly, asOf)
      const itemIds = catalog.items().map(({ item_id }) => item_id)
      const listingsReference = parts.analytics.liquidity.listings_reference
      const items = summarise(itemIds, board, past, { asOf, down, listingsReference })
      const changed = await parts.log.publish(asOf, items)
      await writeView(items, asOf)
      return changed
    },
    async restore() {
      if (parts.log.restored) await writeView(parts.log.restored.items, parts.log.restored.asOf)
    },
  }
}

function shownItems({ catalog, supply }: AnalystParts, items: readonly ItemSummarised[]): SummarisedItem[] {
  return items.flatMap(figures => {
    const item = catalog.byId(figures.item_id)
    return item ? [{ item, figures, supply: supply.units.get(figures.item_id) ?? null }] : []
  })
}

async function readExcluded({ redis, prefix, registry }: AnalystParts, asOf: Instant): Promise<Map<string, Exclusion>> {
  const answers = (await redis.multi().get(healthNextKey(prefix)).hgetall(healthKey(prefix)).exec()) ?? []
  for (const [error] of answers) if (error) throw error
  const [next, stored] = answers.map(([, answer]) => answer) as [string | null, Record<string, string>]
  // Without it every provider would count as down, and a market without any as computed.
  if (next === null) throw new Error('there is no view of provider health')
  const health = new Map(Object.entries(stored).map(([key, text]) => [key, JSON.parse(text) as StoredHealth]))
  return excludedProviders(registry.all, health, asOf)
}

async function readHourly({ clickhouse, board }: AnalystParts, hour: Instant): Promise<HourlyPast> {
  const [week, month] = [hour - 7 * DAY_MS, hour - 30 * DAY_MS]
  return {
    hour,
    ask7d: await readAsksAt(clickhouse, board, week),
    ask30d: await readAsksAt(clickhouse, board, month),
    units: await readUnits(clickhouse, [week, month], hour),
    hourlyCloses: await readHourlyCloses(clickhouse, board, hour),
  }
}

async function readPast(
  { clickhouse, board, analytics }: AnalystParts,
  hourly: HourlyPast,
  asOf: Instant,
): Promise<Past> {
  const day = asOf - DAY_MS
  const recent = await readUnits(clickhouse, [hourly.hour, day], asOf)
  const units = new Map<number, readonly [number, number, number]>()
  for (const itemId of new Set([...recent.keys(), ...hourly.units.keys()])) {
    const [sinceHour = 0, sinceDay = 0] = recent.get(itemId) ?? []
    const [week = 0, month = 0] = hourly.units.get(itemId) ?? []
    units.set(itemId, [sinceDay, week + sinceHour, month + sinceHour])
  }
  return {
    ask24h: await readAsksAt(clickhouse, board, day),
    ...{ ask7d: hourly.ask7d, ask30d: hourly.ask30d, units, hourlyCloses: hourly.hourlyCloses },
    referenceSales: await readSales(clickhouse, analytics.liquidity.sales_reference, asOf),
  }
}
