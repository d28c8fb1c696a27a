/**
 * What each provider's quotes of an item come to, now and against the days before.
 *
 * Reads the live view, provider health and the ClickHouse table changes. Rows are ask-driven: a provider without an ask
 * that counts has none, one without a bid has nulls for the figures of a bid. The ask of a past moment is known from the
 * first change after it, which carries the ask before; an ask that has not changed since is the same.
 */
import type { ClickhouseReader } from '#infra/clickhouse/clickhouse.ts'
import type { Provider } from '#infra/config/providers.ts'
import type { ItemProvider } from '#schemas/api/market.ts'
import { type MicroUsd, toUsdText } from '#schemas/values/money.ts'
import { changeSince, marketcapText, percentOf } from '#schemas/views/item-summary.ts'
import type { LiveEntry } from '#streams/live-view/reader.ts'
import { isDown, type ProviderHealth } from '#streams/provider-health/reader.ts'

const DAY_MS = 86_400_000
const WINDOW_MS = { day: DAY_MS, week: 7 * DAY_MS, month: 30 * DAY_MS } as const
type Window = keyof typeof WINDOW_MS
/** How old a quote may be (DECISIONS.md, "Market items"). */
const AGE_LIMIT_MS = DAY_MS

/** The first change after a moment: whether there was one, and the ask that it found. */
type Found = [count: number, micro: MicroUsd | null]

/** A provider's asks by the changes of the last 30 days. */
export interface ProviderPast {
  provider: string
  units_day: number
  units_week: number
  /** Units of a day, each at the ask that it was taken from, in micro-dollars. */
  value_day: number
  found_day: Found
  found_week: Found
  found_month: Found
}

/** Reads the past of an item's asks by provider. */
export async function readItemPast(
  clickhouse: ClickhouseReader,
  itemId: number,
  now: number,
): Promise<ReadonlyMap<string, ProviderPast>> {
  const after = (window: Window): string => `seen_at > fromUnixTimestamp64Milli({${window}:Int64}, 'UTC')`
  const found = (window: Window): string => {
    const first = `argMinIf(tuple(previous_micro_usd), tuple(seen_at, partition, offset), ${after(window)}).1`
    return `(countIf(${after(window)}), ${first}) AS found_${window}`
  }
  const since = Object.fromEntries(Object.entries(WINDOW_MS).map(([window, ms]) => [window, now - ms]))
  const rows = await clickhouse.rows<ProviderPast>(
    `WITH greatest(previous_quantity - quantity, 0) AS units
    SELECT provider, sumIf(units, ${after('day')}) AS units_day, sumIf(units, ${after('week')}) AS units_week,
      sumIf(units * ifNull(previous_micro_usd, 0), ${after('day')}) AS value_day,
      ${found('day')}, ${found('week')}, ${found('month')}
    FROM ${clickhouse.database}.changes FINAL
    WHERE item_id = {item_id:UInt32} AND side = 'ask' AND ${after('month')} GROUP BY provider`,
    { item_id: itemId, ...since },
  )
  return new Map(rows.map(row => [row.provider, row]))
}

/** The entries that count: of providers that are up, and confirmed within a day. */
export function countingEntries(
  entries: readonly LiveEntry[],
  providers: ReadonlyMap<string, Provider>,
  health: ReadonlyMap<string, ProviderHealth>,
  now: number,
): LiveEntry[] {
  return entries.filter(({ listed, lastUpdatedAt }) => {
    const provider = providers.get(listed.provider)
    const isUp = provider && !isDown(provider.refresh_interval_ms, health.get(listed.provider), now)
    return isUp && now - lastUpdatedAt <= AGE_LIMIT_MS
  })
}

/** A row per provider with an ask, in the order of the asks. */
export function itemProviders(
  asks: readonly LiveEntry[],
  bids: readonly LiveEntry[],
  past: ReadonlyMap<string, ProviderPast>,
  now: number,
): ItemProvider[] {
  const bidOf = new Map(bids.map(entry => [entry.listed.provider, entry.listed.row]))
  return asks.map(({ listed: { provider, row } }): ItemProvider => {
    const bid = bidOf.get(provider)
    const before = past.get(provider)
    const ask = row.priceMicroUsd
    const spread = bid === undefined ? null : ask - bid.priceMicroUsd
    const then = (window: Window): MicroUsd | null => {
      const [count, found] = before?.[`found_${window}`] ?? [0, null]
      if (count > 0) return found
      return row.seenAt <= now - WINDOW_MS[window] ? ask : null
    }
    const [day, week, month] = [
      changeSince(ask, then('day')),
      changeSince(ask, then('week')),
      changeSince(ask, then('month')),
    ]
    return {
      provider,
      ask_usd: toUsdText(ask),
      bid_usd: bid === undefined ? null : toUsdText(bid.priceMicroUsd),
      spread_usd: spread === null ? null : toUsdText(spread),
      spread_pct: spread === null ? null : percentOf(spread, ask),
      ask_depth: row.quantity,
      bid_depth: bid?.quantity ?? null,
      bid_anomaly: spread !== null && spread < 0,
      volume_24h: before?.units_day ?? 0,
      volume_7d: before?.units_week ?? 0,
      total_value_24h_usd: marketcapText(BigInt(Math.round(before?.value_day ?? 0))),
      price_rate_24h: day.rate,
      price_diff_24h: day.diff,
      price_rate_7d: week.rate,
      price_diff_7d: week.diff,
      price_rate_30d: month.rate,
      price_diff_30d: month.diff,
    }
  })
}
