/** Provider health: when a provider counts as down. */
import { expect } from 'chai'
import { loadProviders, type Provider } from '#infra/config/providers.ts'
import { providerRecord } from '#schemas/api/providers.ts'
import { providerRecordOf } from '#services/api/queries/provider-records.ts'
import type { ProviderHealth } from '#streams/provider-health/table.ts'

const MINUTE = 60_000
const NOW = Date.UTC(2026, 2, 3)
const base = loadProviders().all[0] as Provider
const every = (minutes: number): Provider => ({ ...base, refresh_interval_ms: minutes * MINUTE })
const health = (minutesAgo: number | null, failures = 0): ProviderHealth => ({
  last_completed_at: minutesAgo === null ? null : NOW - minutesAgo * MINUTE,
  last_checked_at: NOW - MINUTE,
  consecutive_failures: failures,
  total_offers: 900,
  unique_items: 321,
  total_value: 5_000,
  total_value_usd: 700,
  currency: 'USD',
  quarantined_reason: null,
})
const scope = { now: NOW, catalogItems: 1_000 }

describe('a provider', () => {
  const cases: { name: string; provider: Provider; health: ProviderHealth | undefined; status: 'up' | 'down' }[] = [
    { name: 'without any refresh', provider: every(10), health: undefined, status: 'down' },
    { name: 'that never completed a refresh', provider: every(10), health: health(null), status: 'down' },
    { name: 'three intervals after its last refresh', provider: every(10), health: health(30), status: 'up' },
    { name: 'beyond three intervals', provider: every(10), health: health(30.1), status: 'down' },
    { name: 'of a short interval, within 15 minutes', provider: every(1), health: health(15), status: 'up' },
    { name: 'of a short interval, beyond 15 minutes', provider: every(1), health: health(15.1), status: 'down' },
    { name: 'after two failures', provider: every(10), health: health(5, 2), status: 'up' },
    { name: 'after three failures', provider: every(10), health: health(5, 3), status: 'down' },
    { name: 'after the next good refresh', provider: every(10), health: health(0, 0), status: 'up' },
  ]
  for (const { name, provider, health: stored, status } of cases)
    it(`${name} is ${status}`, () => {
      const record = providerRecord.parse(providerRecordOf(provider, stored, scope))
      expect(record.health.status).to.equal(status)
    })

  it('shows its totals and the share of the catalog that it covers', () => {
    const { health: shown } = providerRecordOf(base, health(1), scope)
    expect(shown).to.deep.equal({
      status: 'up',
      last_checked_at: new Date(NOW - MINUTE).toISOString(),
      total_offers: 900,
      unique_items: 321,
      market_coverage: 32.1,
      total_value: 5_000,
      total_value_usd: 700,
    })
  })
})
