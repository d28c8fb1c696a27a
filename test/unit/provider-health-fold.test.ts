import { expect } from 'chai'
import fc from 'fast-check'
import { loadProviders, type Provider } from '#infra/config/providers.ts'
import { providerRecord } from '#schemas/api/providers.ts'
import type { RefreshJudged, Verdict } from '#schemas/events/refresh-judged.ts'
import { MINUTE_MS } from '#schemas/values/instant.ts'
import { providerRecordOf, statusOf } from '#services/api/routes/providers.ts'
import { step } from '#streams/provider-health/fold.ts'
import type { StoredHealth } from '#streams/provider-health/table.ts'
import { modelHealth, modelIsDown } from '#test/oracles/provider-health.ts'

let clock = 1_000

const judged = (verdict: Verdict, given: Partial<RefreshJudged> = {}): RefreshJudged => {
  clock += 1_000
  return {
    side: 'ask',
    provider: 'p',
    refresh_id: `r${clock}`,
    observed_at: clock,
    verdict,
    reason: null,
    added: 0,
    updated: 0,
    removed: 0,
    unresolved: 0,
    rejected: 0,
    unique_items: 10,
    total_offers: 20,
    total_value: 300,
    currency: 'CNY',
    total_value_usd: 40,
    catalog_version: null,
    ...given,
  }
}

const fold = (verdicts: readonly RefreshJudged[]): StoredHealth => {
  let health: StoredHealth | undefined
  for (const one of verdicts) health = step(health, one)
  if (health === undefined) throw new Error('no verdict')
  return health
}

describe('provider health', () => {
  it('is the same in bytes whichever side was judged first (it kept the order in which they came)', () => {
    const [asks, bids] = [judged('applied'), judged('quarantined', { side: 'bid', reason: 'glitch' })]
    const [one, other] = [fold([asks, bids]), fold([bids, asks])].map(health => JSON.stringify(health))
    expect(one).to.equal(other)
  })

  it('is shown with its totals and the share of the catalog that it covers, and is down without any refresh', () => {
    const totals = { total_offers: 900, unique_items: 321, total_value: 5_000, total_value_usd: 700 }
    const [provider, applied] = [loadProviders().all[0] as Provider, judged('applied', totals)]
    const shown = (health?: StoredHealth) =>
      providerRecord.parse(providerRecordOf(provider, health, { now: clock, catalogItems: 1_000 })).health
    const last_checked_at = new Date(applied.observed_at).toISOString()
    expect(shown(fold([applied]))).to.deep.equal({ status: 'up', last_checked_at, market_coverage: 32.1, ...totals })
    expect(shown()).to.include({ status: 'down', last_checked_at: null, total_offers: 0, market_coverage: 0 })
  })

  const verdict = fc.constantFrom<Verdict>('applied', 'applied', 'failed', 'incomplete', 'quarantined', 'stale')
  const log = fc
    .array(
      fc.record({
        verdict,
        side: fc.constantFrom('ask' as const, 'ask' as const, 'bid' as const),
        observed_at: fc.integer({ min: 1, max: 120 }).map(minutes => minutes * MINUTE_MS),
        reason: fc.constantFrom('glitch', 'collapsed', null),
        unique_items: fc.nat(99),
        total_offers: fc.nat(99),
        total_value: fc.nat(99),
        total_value_usd: fc.nat(99),
      }),
      { minLength: 1, maxLength: 30 },
    )
    .map(given => given.map(({ verdict: what, ...rest }) => judged(what, rest)))

  it('after any verdicts is what a look at all of them finds', () =>
    fc.assert(
      fc.property(log, verdicts => expect({ p: fold(verdicts) }).to.deep.equal(modelHealth(verdicts)) !== undefined),
      { numRuns: 1_000 },
    ))

  it('after any verdicts says up or down as a look at all of them does, to the millisecond', () =>
    fc.assert(
      fc.property(log, fc.integer({ min: 1, max: 20 }), (verdicts, minutes) => {
        const provider = { ...(loadProviders().all[0] as Provider), refresh_interval_ms: minutes * MINUTE_MS }
        const [health, three] = [fold(verdicts), 3 * provider.refresh_interval_ms]
        for (const later of [0, 15 * MINUTE_MS - 1, 15 * MINUTE_MS, 15 * MINUTE_MS + 1, three - 1, three, three + 1]) {
          const now = (health.last_completed_at ?? 0) + later
          const isDown = modelIsDown(verdicts, provider.refresh_interval_ms, now)
          expect(statusOf(provider, health, now), `${later} ms later`).to.equal(isDown ? 'down' : 'up')
        }
      }),
      { numRuns: 1_000 },
    ))
})
