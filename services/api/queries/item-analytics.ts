/**
 * What each provider's quotes of an item come to, now and against the days before.
 *
 * Rows are ask-driven: a provider without an ask that counts has none, one without a bid has nulls for the figures of a bid. The ask of a past moment is known from the
 * first change after it, which carries the ask before; an ask that has not changed since is the same.
 */
import type { Provider } from '#infra/config/providers.ts'
import type { ItemProvider } from '#schemas/api/market.ts'
import { DAY_MS } from '#schemas/values/instant.ts'
import { type MicroUsd, toUsdText } from '#schemas/values/money.ts'
import { PAST_WINDOWS_MS, type PastWindow, type ProviderPast } from '#streams/history/reader.ts'
import type { LiveEntry } from '#streams/live-view/reader.ts'
import { changeSince, marketcapText, percentOf } from '#streams/market-summary/reader.ts'
import { isDown, type ProviderHealth } from '#streams/provider-health/reader.ts'

/** How old a quote may be (DECISIONS.md, "Market items"). */
const AGE_LIMIT_MS = DAY_MS

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
    const then = (window: PastWindow): MicroUsd | null => {
      const [count, found] = before?.[`found_${window}`] ?? [0, null]
      if (count > 0) return found
      return row.seenAt <= now - PAST_WINDOWS_MS[window] ? ask : null
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
