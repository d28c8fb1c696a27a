/**
 * Alerts that are created and made to fire, wave after wave, until it is ended.
 *
 * Writes alerts through the write side that the API calls, and prices of an item of their own per wave. Each alert's
 * condition holds for one moment, right after its rule is in the log, and never again; some are then enabled
 * once more and get a second moment. Invariant: `fires` says how often each alert must fire, no more and no less.
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

const AT_ONCE = 8
const ALERTS_PER_WAVE = [10, 50] as const
const AGAIN_CHANCE = 0.15
const PLENTY = { most: 1_000_000, mostInAll: 1_000_000, now: 0 }
const USD = 1_000_000

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
  const isAgain = random.chance(AGAIN_CHANCE)
  const wanted = Array.from({ length: random.integer(...ALERTS_PER_WAVE) }, () => newAlert(random, itemId))
  await market.move([price('ask', 'provider_a', 100), price('ask', 'provider_b', 101), price('bid', 'provider_c', 90)])
  const created = await createAlerts(database, accountId, wanted, { ...PLENTY, now: Date.now() })
  for (const { id } of created) fires.set(id, 1)
  const moment = async (): Promise<void> => {
    await relayed(database, itemId)
    // Each moment is over before it can have been asked for twice.
    for (const [there, back] of [
      [price('ask', 'provider_a', 50), price('ask', 'provider_a', 100)],
      [price('ask', 'provider_b', 102), price('ask', 'provider_b', 101)],
      [price('bid', 'provider_c', 49), price('bid', 'provider_c', 90)],
    ] as const) {
      await market.move([there])
      await market.move([back])
    }
    await market.move([price('ask', 'provider_a', 160), price('ask', 'provider_b', 150)])
    await market.move([price('ask', 'provider_a', 100), price('ask', 'provider_b', 101)])
  }
  await moment()
  if (!isAgain) return
  const fired = async (): Promise<boolean> => (await eventsOf(database, itemId)) >= created.length
  await eventually(fired, `the alerts on item ${itemId} to have fired`)
  for (const { id } of created) {
    await changeAlert(database, accountId, id, { ...PLENTY, now: Date.now(), changes: { isEnabled: true } })
    fires.set(id, 2)
  }
  await moment()
}

/** Whole part of a threshold, between what a price or spread is at rest and what it is in its moment. */
const WHOLE: Record<NewAlert['kind'], readonly [least: number, most: number]> = {
  price_below: [51, 99],
  price_above: [101, 149],
  spread_exceeds: [11, 50],
}

/** An alert whose condition holds at none of the resting prices, and at one of the moments. */
function newAlert(random: SeededRandom, itemId: number): NewAlert {
  const kind = random.pick(['price_below', 'price_above', 'spread_exceeds'] as const)
  const [least, most] = WHOLE[kind]
  return {
    itemId,
    marketHashName: `item ${itemId}`,
    phase: null,
    kind,
    isEnabled: true,
    thresholdValue: `${random.integer(least, most)}.${random.integer(10, 99)}`,
    thresholdCurrency: kind === 'spread_exceeds' ? null : 'USD',
  }
}

/** Resolves when the log holds every rule on an item. */
async function relayed(database: Database, itemId: number): Promise<void> {
  const isRelayed = async (): Promise<boolean> => {
    const [row] = await database.rows<{ left: number }>(
      'SELECT count(*)::int AS left FROM outbox WHERE partition_key = $1',
      [String(itemId)],
    )
    return row?.left === 0
  }
  await eventually(isRelayed, `the rules on item ${itemId} to be relayed`)
}

async function eventsOf(database: Database, itemId: number): Promise<number> {
  const [row] = await database.rows<{ count: number }>(
    'SELECT count(*)::int AS count FROM alert_events WHERE item_id = $1',
    [itemId],
  )
  return row?.count ?? 0
}

/** An alert with a threshold near an item's prices. */
export function alertNear(random: SeededRandom, { itemId, name, prices }: MarketItem): NewAlert {
  const kind = random.pick(['price_below', 'price_above', 'spread_exceeds'] as const)
  const about = (random.pick(prices) * random.integer(70, 130)) / 10_000
  const threshold = kind === 'spread_exceeds' ? random.integer(100, 3_000) / 100 : Math.max(0.01, about)
  return {
    itemId,
    kind,
    marketHashName: name,
    phase: null,
    isEnabled: true,
    thresholdValue: threshold.toFixed(2),
    thresholdCurrency: kind === 'spread_exceeds' ? null : 'USD',
  }
}
