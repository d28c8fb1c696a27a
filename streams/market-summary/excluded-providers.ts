/**
 * Which providers' quotes count at a moment.
 *
 * A provider that is down counts nowhere, one whose refresh is quarantined does not count in arbitrage
 * (DECISIONS.md, "Arbitrage" and "Market items"). A provider without a reason counts; which of its
 * quotes are too old is judged quote by quote.
 */
import type { Instant } from '#schemas/values/instant.ts'
import { isDown, type ProviderHealth } from '#streams/provider-health/reader.ts'

/** Why a provider's quotes do not count. */
export type Exclusion = 'down' | 'quarantined'

/** A provider and how often it is polled. */
export interface PolledProvider {
  key: string
  refresh_interval_ms: number
}

/** Provider → why its quotes do not count; those that count are left out. */
export function excludedProviders(
  providers: readonly PolledProvider[],
  health: ReadonlyMap<string, ProviderHealth>,
  asOf: Instant,
): Map<string, Exclusion> {
  const excluded = new Map<string, Exclusion>()
  for (const { key, refresh_interval_ms } of providers) {
    const known = health.get(key)
    if (isDown(refresh_interval_ms, known, asOf)) excluded.set(key, 'down')
    else if (known?.quarantined_reason) excluded.set(key, 'quarantined')
  }
  return excluded
}
