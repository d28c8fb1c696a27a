/**
 * A market of full size out of real refreshes: recorded files for all 41 providers, and the same as
 * the reference fold takes it.
 *
 * Writes one folder per provider. Each provider shows every name of the real refresh at a price factor
 * of its own, in its own currency, a few names more or less each time. Invariant: what is written and
 * what is returned come from the same numbers, and neither knows of the platform's code.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import type { RecordedRefresh } from '#test/fixtures/recorded-refreshes.ts'
import type { GivenRefresh } from '#test/harness/reference-fold.ts'

/** A provider and the currency of its feed. */
export interface Feed {
  provider: string
  currency: string
  usdRate: string
}

const MINUTE_MS = 60_000
const GZIP_LEVEL = 1

/** How the market is made. */
export interface MarketPlan {
  feeds: readonly Feed[]
  refreshes: readonly RecordedRefresh[]
  /** When the first provider's first refresh was observed. */
  startMs: number
  /** From one refresh of a provider to its next. */
  stepMs: number
  itemOf(marketHashName: string): number | undefined
}

/** Writes the files of one feed and returns its refreshes in time order. */
export function writeFeed(plan: MarketPlan, feed: Feed, rank: number, dir: string): GivenRefresh[] {
  mkdirSync(dir, { recursive: true })
  return plan.refreshes.map((refresh, round) => {
    const observedAt = plan.startMs + round * plan.stepMs + rank * MINUTE_MS
    const factor = Number(feed.usdRate) * (0.8 + rank / 100)
    // One name in fifty is not shown, another one each time, so that rows come and go.
    const shown = Object.entries(refresh.prices).filter((_, at) => (at + rank + round) % 50 !== 0)
    const priced = shown.map(([name, price]) => [name, Math.max(1, Math.round(price * factor))] as const)
    const refreshedAt = new Date(observedAt).toISOString()
    const file = { ...refresh, currency: feed.currency, refreshed_at: refreshedAt, prices: Object.fromEntries(priced) }
    const text = gzipSync(JSON.stringify(file), { level: GZIP_LEVEL })
    writeFileSync(join(dir, `${refreshedAt.replaceAll(':', '-')}.json.gz`), text)
    return {
      side: 'ask' as const,
      provider: feed.provider,
      refreshId: refreshedAt.replace(/[-:.]/g, ''),
      observedAt,
      currency: feed.currency,
      usdRate: feed.usdRate,
      entries: priced.map(([name, price]) => ({ itemId: plan.itemOf(name), price, quantity: 1 })),
      completed: true,
    }
  })
}
