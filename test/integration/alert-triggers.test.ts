/**
 * The role `alert-triggers` on a log: what fires follows from the order of the log alone.
 *
 * Rules and prices are published one after the other, and a plain model takes them in the same order. Restarts
 * fall between them, and what is published while the role is down counts like the rest.
 */
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { openPublisher, type Publisher } from '#infra/kafka/publisher.ts'
import { alertRuleChanged } from '#schemas/events/alert-rule-changed.ts'
import type { AlertTriggered } from '#schemas/events/alert-triggered.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { ITEM_PARTITIONS, topics } from '#schemas/topics.ts'
import { ALERT_KINDS, type AlertKind } from '#schemas/values/alert.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { type AlertMarket, openAlertMarket } from '#test/fixtures/alert-market.ts'
import { eventually } from '#test/harness/eventually.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import { randomOf, type SeededRandom, seededRandom } from '#test/harness/seeded-random.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'

const USD = 1_000_000
const PROVIDERS = ['provider_a', 'provider_b', 'provider_c']

interface ModelRule {
  id: string
  version: number
  itemId: number
  kind: AlertKind
  /** Whole dollars, or percent. */
  value: number
}

/** Rows and rules as a plain model. */
class Model {
  readonly rows = new Map<string, number>()
  readonly waiting = new Map<string, ModelRule>()
  readonly fired = new Set<string>()

  price(side: Side, itemId: number, provider: string, usd: number | null): void {
    if (usd === null) this.rows.delete(`${side}|${itemId}|${provider}`)
    else this.rows.set(`${side}|${itemId}|${provider}`, usd)
    this.fire()
  }

  rule(rule: ModelRule, isEnabled: boolean): void {
    this.waiting.delete(rule.id)
    if (isEnabled) this.waiting.set(rule.id, rule)
    this.fire()
  }

  private fire(): void {
    for (const rule of [...this.waiting.values()]) {
      if (!this.holds(rule)) continue
      this.waiting.delete(rule.id)
      this.fired.add(`${rule.id}@${rule.version}`)
    }
  }

  private holds({ itemId, kind, value }: ModelRule): boolean {
    const of = (side: Side) =>
      [...this.rows].flatMap(([key, usd]) => (key.startsWith(`${side}|${itemId}|`) ? [usd] : []))
    const [asks, bids] = [of('ask'), of('bid')]
    if (asks.length === 0) return false
    const ask = Math.min(...asks)
    if (kind === 'price_below') return ask < value
    if (kind === 'price_above') return ask > value
    return bids.length > 0 && (ask - Math.max(...bids)) * 100 > value * ask
  }
}

describe('alert triggers on a log', () => {
  const platform = useServers()
  let kafka: KafkaConnection
  let market: AlertMarket
  let accounts: Publisher
  let running: StartedRoles | undefined
  const model = new Model()
  const versions = new Map<string, number>()

  before(async () => {
    kafka = platform.connect()
    market = await openAlertMarket(kafka)
    accounts = await openPublisher(kafka, 'accounts')
    await kafka.codec.prepare([...topics.alertsTriggered.events])
  })
  after(async () => {
    await market.close()
    await accounts.close()
  })

  /** The log's clock counts milliseconds: what is to be in order must not share one. */
  const nextMillisecond = () => {
    const now = Date.now()
    return eventually(() => Date.now() > now + 1, 'a later millisecond')
  }
  const price = async (side: Side, itemId: number, provider: string, usd: number | null): Promise<void> => {
    await market.move([{ side, provider, itemId, micro: usd === null ? null : usd * USD }])
    model.price(side, itemId, provider, usd)
    await nextMillisecond()
  }
  const rule = async (
    id: string,
    itemId: number,
    kind: AlertKind,
    value: number,
    isEnabled = true,
  ): Promise<string> => {
    const version = (versions.get(id) ?? 0) + 1
    versions.set(id, version)
    const event = {
      alert_id: id,
      account_id: 'test',
      item_id: itemId,
      kind,
      threshold_value: String(value),
      version,
      threshold_currency: kind === 'spread_exceeds' ? null : 'USD',
      is_enabled: isEnabled,
      changed_at: Date.now(),
    }
    const partition = partitionOfItem(itemId)
    await accounts.send([
      { topic: 'alertRules', key: id, partition, value: kafka.codec.encode(alertRuleChanged, event) },
    ])
    model.rule({ id, version, itemId, kind, value }, isEnabled)
    await nextMillisecond()
    return `${id}@${version}`
  }
  const start = async (): Promise<void> => {
    running = await platform.startRoles(['alert-triggers'])
    await running.ready()
  }
  const stop = async (): Promise<void> => {
    await running?.stop()
    running = undefined
  }
  const triggers = async (): Promise<Set<string>> => {
    const triggered = (await readTopic(kafka, 'alertsTriggered')).map(({ value }) => value as AlertTriggered)
    return new Set(triggered.map(({ alert_id, version }) => `${alert_id}@${version}`))
  }
  /** Everything has been looked at when a rule that is published last has fired. */
  const settled = async (): Promise<void> => {
    for (let partition = 0, itemId = 1_000; partition < ITEM_PARTITIONS; itemId++) {
      if (partitionOfItem(itemId) !== partition) continue
      await price('ask', itemId, 'provider_a', 1)
      const last = await rule(`last of ${partition}`, itemId, 'price_below', 2)
      await eventually(async () => (await triggers()).has(last), `the last rule of partition ${partition}`)
      partition += 1
    }
  }

  it('fire by a moment that passed while the role was down if they are older than it, else not', async () => {
    await start()
    await price('ask', 1, 'provider_a', 10)
    await stop()
    const before = await rule('before', 1, 'price_below', 5)
    await price('ask', 1, 'provider_a', 4)
    await price('ask', 1, 'provider_a', 10)
    const after = await rule('after', 1, 'price_below', 5)
    await start()
    await settled()
    const fired = await triggers()
    expect([fired.has(before), fired.has(after)]).to.deep.equal([true, false])
  })

  it('know after a restart the best price of all providers, not only of those that moved since', async () => {
    await price('ask', 2, 'provider_a', 10)
    await price('ask', 2, 'provider_b', 20)
    await price('bid', 2, 'provider_c', 9)
    await settled()
    await stop()
    const rules = [await rule('above', 2, 'price_above', 15), await rule('wide', 2, 'spread_exceeds', 40)]
    await start()
    await price('ask', 2, 'provider_b', 30)
    await settled()
    expect([...(await triggers())].filter(one => rules.includes(one))).to.deep.equal([])
    await price('ask', 2, 'provider_a', null)
    await settled()
    expect([...(await triggers())].filter(one => rules.includes(one)).sort()).to.deep.equal([...rules].sort())
  })

  it('fire what a model of the log fires, over restarts at random', async () => {
    const act = async (random: SeededRandom, items: readonly number[]) => {
      const itemId = random.pick(items)
      if (random.chance(0.6)) {
        const side = random.pick(['ask', 'bid'] as const)
        const usd = side === 'ask' ? random.integer(50, 150) : random.integer(20, 90)
        await price(side, itemId, random.pick(PROVIDERS), random.chance(0.15) ? null : usd)
      } else {
        const kind = random.pick(ALERT_KINDS)
        const value = kind === 'spread_exceeds' ? random.integer(5, 60) : random.integer(50, 150)
        // An alert keeps its item and kind.
        const id = `${itemId}-${kind}-${random.integer(1, 4)}`
        await rule(id, itemId, kind, value, random.chance(0.85))
      }
    }
    // The items of the seed see to it that something fires; those of a random seed may do as they like.
    const [fixed, random] = [randomOf(1), seededRandom('triggers over restarts')]
    const [fixedItems, randomItems] = [
      [3, 4, 5],
      [6, 7, 8],
    ]
    for (let round = 0; round < 6; round++) {
      for (let step = 0; step < 30; step++) {
        await act(fixed, fixedItems)
        await act(random, randomItems)
      }
      if (round % 2 === 0) await stop()
      else await start()
    }
    if (running === undefined) await start()
    await settled()
    const fired = await triggers()
    expect(
      [...fired].filter(one => !model.fired.has(one)),
      'fired and should not',
    ).to.deep.equal([])
    // A version that was replaced while the role was down does not fire: accounts would refuse its trigger.
    const newest = [...model.fired].filter(one => one.endsWith(`@${versions.get(one.split('@')[0] ?? '')}`))
    expect(
      newest.filter(one => !fired.has(one)),
      'should have fired',
    ).to.deep.equal([])
    const ofFixed = newest.filter(one => fixedItems.includes(Number(one.split('-')[0])))
    expect(ofFixed.length, 'alerts of the seed that fired last').to.be.above(10)
  })
})
