/**
 * Computes the movers of candles and provider health.
 *
 * What a window's start does not move with is read once for each start, every five minutes or every hour, and kept in memory. Asks
 * are read before parts, which then hold their changes too.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import { loadProviders } from '#infra/config/providers.ts'
import { CANDLE_INTERVALS } from '#schemas/values/candle-interval.ts'
import type { Instant } from '#schemas/values/instant.ts'
import type { MicroUsd } from '#schemas/values/money.ts'
import { readCompositesAt, readFallenUnits, readListedAsks } from '#streams/candles/reader.ts'
import { isDown, openHealthReader } from '#streams/provider-health/reader.ts'
import type { Computation, ComputingTools } from '#streams/runner/view.ts'
import { boundsOf, findMovers } from './step.ts'
import { encodeMovers, MOVERS, MOVERS_WINDOWS, type MoversFacts, type MoversWindow, WINDOW_NAMES } from './table.ts'

interface WindowPast {
  since: Instant
  /** Up to then units are summed in `units`. */
  settled: Instant
  before: ReadonlyMap<number, MicroUsd>
  units: ReadonlyMap<number, readonly number[]>
}

/** Of the parts that are summed each time. */
const { ms: RECENT_INTERVAL_MS } = CANDLE_INTERVALS['5m']

export async function openMovers({ context: { config }, redis, clickhouse }: ComputingTools): Promise<Computation> {
  const { all } = loadProviders(config.providersFile)
  const readHealth = openHealthReader(redis, config.namespace)
  const pasts = new Map<MoversWindow, WindowPast>()
  async function providersAt(asOf: Instant): Promise<{ up: string[]; down: string[] }> {
    const byProvider = await readHealth()
    const { up = [], down = [] } = Object.groupBy(all, ({ key, refresh_interval_ms }) =>
      isDown(refresh_interval_ms, byProvider.get(key), asOf) ? 'down' : 'up',
    )
    return { up: up.map(({ key }) => key), down: down.map(({ key }) => key) }
  }
  async function pastOf(window: MoversWindow, asOf: Instant): Promise<WindowPast> {
    const bounds = boundsOf(window, asOf)
    const last = pasts.get(window)
    if (last?.since === bounds.since) return last
    const past = { ...bounds, ...(await readPast(clickhouse, window, bounds)) }
    pasts.set(window, past)
    return past
  }
  const movers: Computation['snapshots'][number] = {
    ...MOVERS,
    feeds: async asOf => (await providersAt(asOf)).up,
    async compute(asOf) {
      const asks = await readListedAsks(clickhouse, (await providersAt(asOf)).down)
      if (asks.every(({ lowest }) => lowest === 0)) return undefined
      const windows: WindowPast[] = []
      for (const window of WINDOW_NAMES) windows.push(await pastOf(window, asOf))
      const starts = windows.map(({ settled }) => settled)
      const recent = await readFallenUnits(clickhouse, { intervalMs: RECENT_INTERVAL_MS, starts })
      const rows = windows.map(({ before, units }, i) => {
        const unitsOf = (itemId: number): number => (units.get(itemId)?.[0] ?? 0) + (recent.get(itemId)?.[i] ?? 0)
        return encodeMovers(findMovers(asks, { before, units: unitsOf }))
      })
      const byWindow = <T>(values: readonly T[]) =>
        Object.fromEntries(WINDOW_NAMES.map((window, i) => [window, values[i] as T])) as Record<MoversWindow, T>
      const facts: MoversFacts = { since: byWindow(windows.map(({ since }) => since)) }
      return { facts, values: byWindow(rows) }
    },
  }
  return { snapshots: [movers] }
}

async function readPast(
  clickhouse: ClickhouseReader,
  window: MoversWindow,
  { since, settled }: Pick<WindowPast, 'since' | 'settled'>,
): Promise<Pick<WindowPast, 'before' | 'units'>> {
  const { bucketMs: intervalMs } = MOVERS_WINDOWS[window]
  return {
    before: await readCompositesAt(clickhouse, since, intervalMs),
    units:
      since < settled ? await readFallenUnits(clickhouse, { intervalMs, starts: [since], end: settled }) : new Map(),
  }
}
