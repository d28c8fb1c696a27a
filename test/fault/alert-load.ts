/**
 * Alerts that are created and made to fire, wave after wave, until it is ended.
 *
 * Writes alerts through the write side that the API calls, and prices of an item of their own per wave. Each kind has its time, in
 * which the conditions of its alerts hold until all have fired, while other prices move on; some are then enabled once more and
 * get a second time. Invariant: `fires` says how often each alert must fire, no more and no less.
 */
import { setTimeout as pause } from 'node:timers/promises'
import type { Database } from '#infra/postgres/pool.ts'
import { changeAlert, createAlerts, type NewAlert } from '#services/alerts/rules/commands.ts'
import type { AlertMarket, Move } from '#test/fixtures/alert-market.ts'
import type { MarketItem } from '#test/fixtures/seeded-market.ts'
import { eventually } from '#test/harness/eventually.ts'
import type { SeededRandom } from '#test/harness/seeded-random.ts'

/** What a load works with. */
export interface AlertLoadOptions {
  database: Database
  market: AlertMarket
  random: SeededRandom
  accountIds: readonly string[]
  alertsPerSecond: number
  /** Alerts that are made at least, however early the end is asked for. */
  least: number
}

/** A load that runs. */
export interface AlertLoad {
  /** Alert → how often it must fire; complete when `end` has resolved. */
  readonly fires: ReadonlyMap<string, number>
  /** Waits for the least number of alerts and the waves under way. */
  end(): Promise<void>
}

const AT_ONCE = 12
const ALERTS_PER_WAVE = [10, 50] as const
/** Every so many waves are enabled again. */
const AGAIN_EACH = 6
const PLENTY = { most: 1_000_000, mostInAll: 1_000_000, now: 0 }
const USD = 1_000_000
/** A killed process holds what it had for the ten seconds of its session, and another may be killed meanwhile. */
const FIRES_LIMIT_MS = 120_000

/** Begins to create alerts and move prices. */
export function startAlertLoad(options: AlertLoadOptions): AlertLoad {
  const { random, least, alertsPerSecond } = options
  const fires = new Map<string, number>()
  const startedAt = performance.now()
  let isEnding = false
  let nextItem = 1
  const worker = async (): Promise<void> => {
    while (!isEnding || fires.size < least) {
      const aheadMs = (fires.size / alertsPerSecond) * 1_000 - (performance.now() - startedAt)
      if (aheadMs > 0 && !isEnding) await pause(Math.min(aheadMs, 1_000))
      await runWave(options, nextItem++, fires)
    }
  }
  const running = Promise.all(Array.from({ length: AT_ONCE }, worker))
  // `end` hands a failure on; until then it must not count as unhandled.
  running.catch(() => undefined)
  return {
    fires,
    async end() {
      isEnding = true
      await running
      console.log(`      ${nextItem - 1} waves, ${fires.size} alerts, seed ${random.seed}`)
    },
  }
}

async function runWave(
  { database, market, random, accountIds }: AlertLoadOptions,
  itemId: number,
  fires: Map<string, number>,
): Promise<void> {
  const price = (side: Move['side'], provider: string, usd: number): Move => ({
    side,
    provider,
    itemId,
    micro: usd * USD,
  })
  const accountId = accountIds[itemId % accountIds.length] as string
  const wanted = Array.from({ length: random.integer(...ALERTS_PER_WAVE) }, () => newAlert(random, itemId))
  const rest = {
    asks: [price('ask', 'provider_a', 100), price('ask', 'provider_b', 101)],
    bids: [price('bid', 'provider_c', 90)],
  }
  await market.move([...rest.asks, ...rest.bids])
  const created = await createAlerts(database, accountId, wanted, { ...PLENTY, now: Date.now() })
  for (const { id } of created) fires.set(id, 1)
  const times: readonly [NewAlert['kind'], there: Move[], back: Move[]][] = [
    ['price_below', [price('ask', 'provider_a', 50)], rest.asks],
    ['spread_exceeds', [price('bid', 'provider_c', 49)], rest.bids],
    ['price_above', [price('ask', 'provider_a', 160), price('ask', 'provider_b', 150)], rest.asks],
  ]
  const fireAll = async (enablings: number): Promise<void> => {
    for (const [kind, there, back] of times) {
      const count = enablings * created.filter(alert => alert.kind === kind).length
      await market.move(there)
      let dearest = 200
      const haveFired = async (): Promise<boolean> => {
        // No best price, and so no alert's: it keeps the role at work.
        await market.move([price('ask', 'provider_d', dearest++)])
        return (await eventsOf(database, itemId, kind)) >= count
      }
      await eventually(haveFired, `the alerts of ${kind} on item ${itemId} to have fired`, FIRES_LIMIT_MS)
      await market.move(back)
    }
  }
  await fireAll(1)
  if (itemId % AGAIN_EACH !== 0) return
  for (const { id } of created) {
    await changeAlert(database, accountId, id, { ...PLENTY, now: Date.now(), changes: { is_enabled: true } })
    fires.set(id, 2)
  }
  await fireAll(2)
}

/** Whole part of a threshold, between what a price or spread is at rest and what it is in its time. */
const WHOLE: Record<NewAlert['kind'], readonly [least: number, most: number]> = {
  price_below: [51, 99],
  price_above: [101, 149],
  spread_exceeds: [11, 50],
}

/** An alert whose condition holds at none of the resting prices, and in the time of its kind. */
function newAlert(random: SeededRandom, itemId: number): NewAlert {
  const kind = random.pick(['price_below', 'price_above', 'spread_exceeds'] as const)
  const [least, most] = WHOLE[kind]
  return {
    item_id: itemId,
    market_hash_name: `item ${itemId}`,
    phase: null,
    kind,
    is_enabled: true,
    threshold_value: `${random.integer(least, most)}.${random.integer(10, 99)}`,
    threshold_currency: kind === 'spread_exceeds' ? null : 'USD',
  }
}

async function eventsOf(database: Database, itemId: number, kind: NewAlert['kind']): Promise<number> {
  const [row] = await database.rows<{ count: number }>(
    'SELECT count(*)::int AS count FROM alert_events WHERE item_id = $1 AND kind = $2',
    [itemId, kind],
  )
  return row?.count ?? 0
}

/** An alert with a threshold near an item's prices. */
export function alertNear(random: SeededRandom, { itemId, name, prices }: MarketItem): NewAlert {
  const kind = random.pick(['price_below', 'price_above', 'spread_exceeds'] as const)
  const about = (random.pick(prices) * random.integer(70, 130)) / 10_000
  const threshold = kind === 'spread_exceeds' ? random.integer(100, 3_000) / 100 : Math.max(0.01, about)
  return {
    item_id: itemId,
    kind,
    market_hash_name: name,
    phase: null,
    is_enabled: true,
    threshold_value: threshold.toFixed(2),
    threshold_currency: kind === 'spread_exceeds' ? null : 'USD',
  }
}
