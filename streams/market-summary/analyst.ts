/**
 * Computes and publishes: an arbitrage snapshot every few seconds, a summary of the market every few minutes.
 *
 * Reads the board, ClickHouse and provider health; writes market.summaries and the views. The moment is an argument, so
 * that the same log and moment give the same figures. Figures of past moments that cannot change any more (those of 7
 * and 30 days, and of completed hours) are read once an hour: they scan weeks of changes. So windows of 7 and 30
 * days begin at a full hour. Invariants: a summary's view is written only after the log holds the summary; nothing is written
 * where no price counts, since that would show prices that are not known yet as none: the routes answer 503, or from the last.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { AnalyticsConfig } from '#infra/config/analytics.ts'
import type { ProviderRegistry } from '#infra/config/providers.ts'
import type { SupplyEstimates } from '#infra/config/supply.ts'
import type { CatalogReader } from '#infra/runtime/role.ts'
import type { ItemSummarised } from '#schemas/events/market-summary.ts'
import type { Instant } from '#schemas/values/instant.ts'
import type { MicroUsd } from '#schemas/values/money.ts'
import { HOURS_OF_CLOSES, readHourlyCloses } from '#streams/candles/reader.ts'
import { readAsksBeforeChanges, readUnitsTaken } from '#streams/history/reader.ts'
import type { ProviderHealthReader } from '#streams/provider-health/reader.ts'
import { countRecentSales } from '#streams/sales/reader.ts'
import { computeArbitrage, type Exclusion, excludedProviders } from './arbitrage.ts'
import { arbitrageFees } from './arbitrage-amounts.ts'
import type { Board } from './board.ts'
import type { MarketViewWriter } from './sink.ts'
import { type ByItem, type Past, summarise } from './summarise.ts'
import { type SummarisedItem, summaryBody } from './summary-body.ts'
import type { SummaryLog } from './summary-log.ts'

/** What the analyst works with. */
interface AnalystParts {
  board: Board
  health: ProviderHealthReader
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
  /** Writes the arbitrage snapshot of a moment; resolves with its number of rows, or with undefined before a first refresh. */
  arbitrage(asOf: Instant): Promise<number | undefined>
  /**
   * Publishes and writes the summary of a moment; resolves with the items that changed, or with undefined where none is due:
   * less than two minutes after the last unless a provider has come, and where no price counts.
   */
  summary(asOf: Instant): Promise<number | undefined>
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
const SUMMARY_EVERY_MS = 120_000

/** Opens the analyst. */
export function openAnalyst(parts: AnalystParts): Analyst {
  const { board, catalog, registry, views } = parts
  const fees = new Map(registry.all.map(({ key, fees }) => [key, arbitrageFees(fees)]))
  let hourly: HourlyPast | undefined
  let last = { asOf: Number.NEGATIVE_INFINITY, refreshedSides: 0 }
  const writeView = async (items: readonly ItemSummarised[], asOf: Instant): Promise<void> =>
    views.writeSummary(await summaryBody(shownItems(parts, items), asOf))
  return {
    async arbitrage(asOf) {
      if (board.refreshedSides() === 0) return undefined
      const snapshot = computeArbitrage(board, { asOf, excluded: await readExcluded(parts, asOf), fees })
      await views.writeArbitrage(snapshot)
      return snapshot.columns.rows
    },
    async summary(asOf) {
      const down = new Set(
        [...(await readExcluded(parts, asOf))].flatMap(([key, why]) => (why === 'down' ? [key] : [])),
      )
      const refreshedSides = board.refreshedSides(down)
      const isDue = refreshedSides > last.refreshedSides || asOf >= last.asOf + SUMMARY_EVERY_MS
      // Before a first refresh nothing is read: the pause after a computation is ten times what that took.
      if (refreshedSides === 0 || !isDue) return undefined
      const hour = hourOf(asOf)
      if (hourly?.hour !== hour) hourly = await readHourly(parts, hour)
      const past = await readPast(parts, hourly, asOf)
      const itemIds = catalog.items().map(({ item_id }) => item_id)
      const listingsReference = parts.analytics.liquidity.listings_reference
      const items = summarise(itemIds, board, past, { asOf, down, listingsReference })
      if (!items.some(isPriced)) return undefined
      const changed = await parts.log.publish(asOf, items)
      await writeView(items, asOf)
      last = { asOf, refreshedSides }
      return changed
    },
    async restore() {
      if (parts.log.restored) await writeView(parts.log.restored.items, parts.log.restored.asOf)
    },
  }
}

const isPriced = ({ best_ask_micro_usd: ask, best_bid_micro_usd: bid }: ItemSummarised): boolean =>
  ask !== null || bid !== null

function shownItems({ catalog, supply }: AnalystParts, items: readonly ItemSummarised[]): SummarisedItem[] {
  return items.flatMap(figures => {
    const item = catalog.byId(figures.item_id)
    return item ? [{ item, figures, supply: supply.units.get(figures.item_id) ?? null }] : []
  })
}

const readExcluded = async ({ health, registry }: AnalystParts, asOf: Instant): Promise<Map<string, Exclusion>> =>
  excludedProviders(registry.all, await health.readAll(), asOf)

async function readHourly({ clickhouse, board }: AnalystParts, hour: Instant): Promise<HourlyPast> {
  const [week, month] = [hour - 7 * DAY_MS, hour - 30 * DAY_MS]
  return {
    hour,
    ask7d: await readAsksAt(clickhouse, board, week),
    ask30d: await readAsksAt(clickhouse, board, month),
    units: await readUnitsTaken(clickhouse, [week, month], hour),
    hourlyCloses: await readCompositeCloses(clickhouse, board, hour),
  }
}

async function readPast(
  { clickhouse, board, analytics }: AnalystParts,
  hourly: HourlyPast,
  asOf: Instant,
): Promise<Past> {
  const day = asOf - DAY_MS
  const recent = await readUnitsTaken(clickhouse, [hourly.hour, day], asOf)
  const units = new Map<number, readonly [number, number, number]>()
  for (const itemId of new Set([...recent.keys(), ...hourly.units.keys()])) {
    const [sinceHour = 0, sinceDay = 0] = recent.get(itemId) ?? []
    const [week = 0, month = 0] = hourly.units.get(itemId) ?? []
    units.set(itemId, [sinceDay, week + sinceHour, month + sinceHour])
  }
  return {
    ask24h: await readAsksAt(clickhouse, board, day),
    ask7d: hourly.ask7d,
    ask30d: hourly.ask30d,
    units,
    hourlyCloses: hourly.hourlyCloses,
    referenceSales: await countRecentSales(clickhouse, analytics.liquidity.sales_reference, asOf),
  }
}

const HOUR_MS = 3_600_000

/** The start of the hour of a moment. */
const hourOf = (moment: Instant): Instant => Math.floor(moment / HOUR_MS) * HOUR_MS

/** The composite best ask of a past moment; items that were not listed then are left out. */
async function readAsksAt(clickhouse: ClickhouseReader, board: Board, moment: Instant): Promise<Map<number, MicroUsd>> {
  const asks = await readAsksBeforeChanges(clickhouse, moment)
  for (const [itemId, unchanged] of lowestSince(board, moment)) {
    asks.set(itemId, Math.min(asks.get(itemId) ?? Number.POSITIVE_INFINITY, unchanged))
  }
  return asks
}

/** The lowest ask of each item among those that have not changed since a moment. */
function* lowestSince(board: Board, moment: Instant): Generator<[itemId: number, micro: MicroUsd]> {
  const { providers, microUsd, seenAt } = board.sides.ask
  for (let slot = 0; slot < board.size; slot++) {
    let lowest = Number.POSITIVE_INFINITY
    for (let cell = slot * providers.length; cell < (slot + 1) * providers.length; cell++) {
      const micro = microUsd[cell] as number
      if (micro !== 0 && micro < lowest && (seenAt[cell] as number) <= moment) lowest = micro
    }
    if (lowest !== Number.POSITIVE_INFINITY) yield [board.itemId(slot), lowest]
  }
}

/**
 * The composite closes of the last 24 completed hours in which an ask of the item changed, oldest first; formulas as
 * those of candles (streams/candles/compose.ts).
 */
async function readCompositeCloses(
  clickhouse: ClickhouseReader,
  board: Board,
  end: Instant,
): Promise<Map<number, number[]>> {
  const start = end - HOURS_OF_CLOSES * HOUR_MS
  const rows = await readHourlyCloses(clickhouse, start)
  // An ask that changed just at the start has a part of its own.
  const unchanged = new Map(lowestSince(board, start - 1))
  const closes = new Map<number, number[]>()
  for (const { item_id, hours } of rows) {
    const own = unchanged.get(item_id) ?? Number.POSITIVE_INFINITY
    const values = hours.sort(([a], [b]) => a - b).map(([, listed, withdrawn]) => lowestOf(listed, own, withdrawn))
    closes.set(item_id, values)
  }
  return closes
}

/** The lower listed ask; where none is listed, the one that was withdrawn last. */
function lowestOf(listed: MicroUsd, unchanged: MicroUsd, withdrawn: MicroUsd): MicroUsd {
  const lowest = listed === 0 ? unchanged : Math.min(listed, unchanged)
  return Number.isFinite(lowest) ? lowest : withdrawn
}
