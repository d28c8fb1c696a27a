/**
 * Alerts where the clocks of brokers differ: the log's stamps order rules and changes, and here each topic has stamps of the test's own.
 *
 * What is claimed is what streams/alert-triggers promises for clocks that lie {@link D} apart at most, and nothing of what comes closer.
 */
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { alertRuleChanged } from '#schemas/events/alert-rule-changed.ts'
import type { AlertTriggered } from '#schemas/events/alert-triggered.ts'
import { ITEM_PARTITIONS, topics } from '#schemas/topics.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { type AlertMarket, openAlertMarket } from '#test/fixtures/alert-market.ts'
import { eventually } from '#test/harness/eventually.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import { openStampedPublisher, type StampedPublisher } from '#test/harness/stamped-publisher.ts'
import { useServers } from '#test/harness/use-servers.ts'

/** How far the clock of the rules' broker is from that of the changes', in milliseconds. */
const D = 1_500
const USD = 1_000_000

describe('alert triggers by clocks that differ', () => {
  const platform = useServers()
  let kafka: KafkaConnection
  let market: AlertMarket
  let accounts: StampedPublisher

  before(async () => {
    kafka = platform.connect()
    market = await openAlertMarket(kafka)
    accounts = await openStampedPublisher(kafka, ['alertRules'])
    await kafka.codec.prepare([...topics.alertsTriggered.events])
  })
  after(async () => {
    await market?.close()
    await accounts?.close()
  })

  const price = (itemId: number, usd: number) =>
    market.move([{ side: 'ask', provider: 'provider_a', itemId, micro: usd * USD }])
  /** Fires below five dollars; stamped as by a clock that is ahead or behind. */
  const rule = (id: string, itemId: number, aheadMs: number) => {
    const stamp = Date.now() + aheadMs
    const value = kafka.codec.encode(alertRuleChanged, {
      alert_id: id,
      account_id: 'test',
      item_id: itemId,
      kind: 'price_below',
      threshold_value: '5',
      version: 1,
      threshold_currency: 'USD',
      is_enabled: true,
      changed_at: stamp,
    })
    return accounts.send([{ topic: 'alertRules', key: id, partition: partitionOfItem(itemId), value }], stamp)
  }
  const longer = () => {
    const from = Date.now()
    return eventually(() => Date.now() > from + D, 'more time than clocks differ by')
  }
  const triggers = async (): Promise<string[]> =>
    (await readTopic(kafka, 'alertsTriggered'))
      .map(({ value }) => value as AlertTriggered)
      .map(({ alert_id, version }) => `${alert_id}@${version}`)
  /** Everything has been looked at when a rule of each partition that is published last has fired. */
  async function derive(round: string): Promise<string[]> {
    const before = countsOf(await triggers())
    const roles = await platform.startRoles(['alert-triggers'])
    await roles.ready()
    for (let partition = 0, itemId = 1_000; partition < ITEM_PARTITIONS; itemId++) {
      if (partitionOfItem(itemId) !== partition) continue
      const last = `last ${round} ${partition}`
      await price(itemId, 1)
      await rule(last, itemId, 0)
      await eventually(async () => (await triggers()).includes(`${last}@1`), last)
      partition += 1
    }
    await roles.stop()
    const now = countsOf((await triggers()).filter(one => !one.startsWith('last')))
    return [...now].filter(([one, count]) => count > (before.get(one) ?? 0)).map(([one]) => one)
  }

  it('see what came longer after a rule, not what was gone longer before it, and fire the same on each replay', async () => {
    for (const [itemId, aheadMs] of [
      [1, D],
      [2, -D],
    ] as const) {
      await price(itemId, 10)
      await rule(`before-${itemId}`, itemId, aheadMs)
      await longer()
      await price(itemId, 4)
      await price(itemId, 10)
      await longer()
      await rule(`after-${itemId}`, itemId, aheadMs)
      // As the rule comes the price is on its way: whether that fires is not promised, but it does not change.
      await price(itemId + 2, 10)
      await rule(`borderline-${itemId}`, itemId + 2, aheadMs)
      await price(itemId + 2, 3)
      await price(itemId + 2, 10)
    }
    const fired = await derive('first')
    expect(fired.filter(one => !one.startsWith('borderline')).sort()).to.deep.equal(['before-1@1', 'before-2@1'])
    const admin = kafka.newClient('again').admin()
    await admin.connect()
    for (const round of ['second', 'third']) {
      await admin.deleteGroups([kafka.groupName('alert-triggers')])
      expect((await derive(round)).sort()).to.deep.equal([...fired].sort())
    }
    await admin.disconnect()
  })
})

const countsOf = (all: readonly string[]): Map<string, number> => {
  const counts = new Map<string, number>()
  for (const one of all) counts.set(one, (counts.get(one) ?? 0) + 1)
  return counts
}
