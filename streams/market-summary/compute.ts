/**
 * Computes the pairs of arbitrage every ten seconds and the figures of all items every two minutes, of the market in memory.
 *
 * Reads quotes, ClickHouse and provider health. The moment is an argument, so that the same log and moment give the same figures.
 * Figures of past moments that cannot change any more (those of 7 and 30 days, and of completed hours) are read once an hour: they
 * scan weeks of changes. So windows of 7 and 30 days begin at a full hour. Nothing is written where no price counts, since that would
 * show prices that are not known yet as none.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { loadAnalytics } from '#infra/config/analytics.ts'
import { loadProviders } from '#infra/config/providers.ts'
import { loadSupply } from '#infra/config/supply.ts'
import { DAY_MS, HOUR_MS, type Instant } from '#schemas/values/instant.ts'
import type { MicroUsd } from '#schemas/values/money.ts'
import { HOURS_OF_CLOSES, readHourlyCloses } from '#streams/candles/reader.ts'
import { readAsksBeforeChanges, readUnitsTaken } from '#streams/history/reader.ts'
import { openHealthReader } from '#streams/provider-health/reader.ts'
import type { Computation, ComputedSnapshot, ComputingTools } from '#streams/runner/view.ts'
import { countRecentSales } from '#streams/sales/reader.ts'
import { computeArbitrage, excludedProviders } from './arbitrage.ts'
import { arbitrageFees } from './arbitrage-amounts.ts'
import { followMarket } from './follow-market.ts'
import { MarketQuotes } from './market-quotes.ts'
import { type ByItem, type Past, summarise } from './summarise.ts'
import { summaryBody } from './summary-body.ts'
import { ARBITRAGE, columnBytes, SUMMARY } from './table.ts'

interface HourlyPast extends Pick<Past, 'hourlyCloses'> {
  hour: Instant
  /** 7 and 30 days before. */
  asks: readonly ByItem<MicroUsd>[]
  /** Units of 7 and 30 days up to the hour. */
  units: ByItem<readonly number[]>
}

export async function openMarketSummary(tools: ComputingTools): Promise<Computation | undefined> {
  const { context, kafka, redis, clickhouse, log, signal } = tools
  const { config } = context
  const registry = loadProviders(config.providersFile)
  const quotes = new MarketQuotes({ ask: registry.askKeys, bid: registry.bidKeys })
  const market = await followMarket(quotes, { kafka, ids: await context.topicIds(), log, signal })
  if (!market) return undefined
  market.lost.catch(error => context.fail(error))
  const readHealth = openHealthReader(redis, config.namespace)
  const catalog = await context.catalog()
  const { liquidity } = loadAnalytics()
  const supply = loadSupply()
  const fees = new Map(registry.all.map(({ key, fees }) => [key, arbitrageFees(fees)]))
  const excludedAt = async (asOf: Instant) => excludedProviders(registry.all, await readHealth(), asOf)
  const downAt = async (asOf: Instant): Promise<Set<string>> =>
    new Set([...(await excludedAt(asOf))].flatMap(([key, why]) => (why === 'down' ? [key] : [])))
  let hourly: HourlyPast | undefined

  const arbitrage: ComputedSnapshot = {
    ...ARBITRAGE,
    of: ['provider-health'],
    feeds: async () => quotes.refreshedSides(),
    async compute(asOf) {
      const { columns, ...facts } = computeArbitrage(quotes, { asOf, excluded: await excludedAt(asOf), fees })
      return { facts, values: { columns: columnBytes(columns) } }
    },
  }
  const summary: ComputedSnapshot = {
    ...SUMMARY,
    restMs: 120_000,
    feeds: async asOf => quotes.refreshedSides(await downAt(asOf)),
    async compute(asOf) {
      const hour = hourOf(asOf)
      if (hourly?.hour !== hour) hourly = await readHourly(clickhouse, quotes, hour)
      const past = await readPast(clickhouse, quotes, { hourly, asOf, salesReference: liquidity.sales_reference })
      const terms = { asOf, down: await downAt(asOf), listingsReference: liquidity.listings_reference }
      const figures = summarise(
        catalog.items().map(({ item_id }) => item_id),
        quotes,
        past,
        terms,
      )
      if (figures.every(({ ask, bid }) => ask === null && bid === null)) return undefined
      const items = figures.flatMap(one => {
        const item = catalog.byId(one.itemId)
        return item ? [{ item, figures: one, supply: supply.get(one.itemId) ?? null }] : []
      })
      return summaryBody(items, asOf)
    },
  }
  return { snapshots: [arbitrage, summary], own: { topic: 'bookChanges', position: market.position } }
}

async function readHourly(clickhouse: ClickhouseReader, quotes: MarketQuotes, hour: Instant): Promise<HourlyPast> {
  const [week, month] = [hour - 7 * DAY_MS, hour - 30 * DAY_MS]
  return {
    hour,
    asks: [await readAsksAt(clickhouse, quotes, week), await readAsksAt(clickhouse, quotes, month)],
    units: await readUnitsTaken(clickhouse, [week, month], hour),
    hourlyCloses: await readCompositeCloses(clickhouse, quotes, hour),
  }
}

async function readPast(
  clickhouse: ClickhouseReader,
  quotes: MarketQuotes,
  { hourly, asOf, salesReference }: { hourly: HourlyPast; asOf: Instant; salesReference: string },
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
    asks: [await readAsksAt(clickhouse, quotes, day), ...hourly.asks],
    units,
    hourlyCloses: hourly.hourlyCloses,
    referenceSales: await countRecentSales(clickhouse, salesReference, asOf),
  }
}

const hourOf = (moment: Instant): Instant => Math.floor(moment / HOUR_MS) * HOUR_MS

/** The composite best ask of a past moment; items that were not listed then are left out. */
async function readAsksAt(
  clickhouse: ClickhouseReader,
  quotes: MarketQuotes,
  moment: Instant,
): Promise<Map<number, MicroUsd>> {
  const asks = await readAsksBeforeChanges(clickhouse, moment)
  for (const [itemId, unchanged] of lowestSince(quotes, moment)) {
    asks.set(itemId, Math.min(asks.get(itemId) ?? Number.POSITIVE_INFINITY, unchanged))
  }
  return asks
}

/** The lowest ask of each item among those that have not changed since a moment. */
function* lowestSince(quotes: MarketQuotes, moment: Instant): Generator<[itemId: number, micro: MicroUsd]> {
  const { providers, microUsd, seenAt } = quotes.sides.ask
  for (let slot = 0; slot < quotes.size; slot++) {
    let lowest = Number.POSITIVE_INFINITY
    for (let cell = slot * providers.length; cell < (slot + 1) * providers.length; cell++) {
      const micro = microUsd[cell] as number
      if (micro !== 0 && micro < lowest && (seenAt[cell] as number) <= moment) lowest = micro
    }
    if (lowest !== Number.POSITIVE_INFINITY) yield [quotes.itemId(slot), lowest]
  }
}

/**
 * The composite closes of the last 24 completed hours in which an ask of the item changed, oldest first; formulas as
 * those of candles (streams/candles/compose.ts).
 */
async function readCompositeCloses(
  clickhouse: ClickhouseReader,
  quotes: MarketQuotes,
  end: Instant,
): Promise<Map<number, number[]>> {
  const start = end - HOURS_OF_CLOSES * HOUR_MS
  const rows = await readHourlyCloses(clickhouse, start)
  // An ask that changed just at the start has a part of its own.
  const unchanged = new Map(lowestSince(quotes, start - 1))
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
