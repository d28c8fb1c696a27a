/**
 * The role `alert-triggers` on a log, over restarts: a rule is evaluated by the prices of the moment at which it is opened, and from then
 * on. What fires of any order is claimed of the step (unit/alert-triggers-step.test.ts).
 */
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { openPublisher, type Publisher } from '#infra/kafka/publisher.ts'
import { openRangeReader } from '#infra/kafka/range-reader.ts'
import { openTopicIds } from '#infra/kafka/topic-ids.ts'
import { alertRuleChanged } from '#schemas/events/alert-rule-changed.ts'
import type { AlertTriggered } from '#schemas/events/alert-triggered.ts'
import type { Side } from '#schemas/events/book-changed.ts'
import { ITEM_PARTITIONS, topics } from '#schemas/topics.ts'
import type { AlertKind } from '#schemas/values/alert.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { openItemBook } from '#streams/alert-triggers/item-book.ts'
import { openRowReader } from '#streams/alert-triggers/rows.ts'
import { type AlertMarket, openAlertMarket } from '#test/fixtures/alert-market.ts'
import { eventually } from '#test/harness/eventually.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'

const USD = 1_000_000

describe('alert triggers on a log', () => {
  const platform = useServers()
  let kafka: KafkaConnection
  let market: AlertMarket
  let rules: Publisher
  let running: StartedRoles | undefined

  before(async () => {
    kafka = platform.connect()
    market = await openAlertMarket(kafka)
    rules = await openPublisher(kafka, 'alerts')
    await kafka.codec.prepare([...topics.alertsTriggered.events])
  })
  after(async () => {
    await market.close()
    await rules.close()
  })

  const price = (side: Side, itemId: number, provider: string, usd: number | null): Promise<void> =>
    market.move([{ side, provider, itemId, micro: usd === null ? null : usd * USD }])
  const rule = async (id: string, itemId: number, kind: AlertKind, value: number): Promise<string> => {
    const event = {
      alert_id: id,
      account_id: 'test',
      item_id: itemId,
      kind,
      threshold_value: String(value),
      version: 1,
      threshold_currency: kind === 'spread_exceeds' ? null : 'USD',
      is_enabled: true,
      changed_at: Date.now(),
    }
    const partition = partitionOfItem(itemId)
    await rules.send([{ topic: 'alertRules', key: id, partition, value: kafka.codec.encode(alertRuleChanged, event) }])
    return `${id}@1`
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
  let rounds = 0
  /** Every change has been applied when the last one of its partition, which fires a rule that waits for it, has done so. */
  const settled = async (): Promise<void> => {
    rounds += 1
    for (let partition = 0, itemId = 1_000; partition < ITEM_PARTITIONS; itemId++) {
      if (partitionOfItem(itemId) !== partition) continue
      await price('ask', itemId, 'provider_a', 10)
      const last = await rule(`last of ${partition}, ${rounds}`, itemId, 'price_below', 2)
      await price('ask', itemId, 'provider_a', 1)
      await eventually(async () => (await triggers()).has(last), `the last rule of partition ${partition}`)
      partition += 1
    }
  }

  it('fire by the prices of the moment at which the role is there again, and not by one that came and went before', async () => {
    await start()
    await price('ask', 1, 'provider_a', 10)
    await stop()
    const gone = await rule('gone', 1, 'price_below', 5)
    const there = await rule('there', 1, 'price_below', 8)
    await price('ask', 1, 'provider_a', 4)
    await price('ask', 1, 'provider_a', 7)
    await start()
    await settled()
    const fired = await triggers()
    expect([fired.has(there), fired.has(gone)]).to.deep.equal([true, false])
    await price('ask', 1, 'provider_a', 4)
    await settled()
    expect((await triggers()).has(gone)).to.equal(true)
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

  it('have all rows of a partition that is opened twice at once (one of them fired by the few that moved meanwhile)', async () => {
    await price('ask', 3, 'provider_a', 10)
    // Once another transaction was begun, that of the price before is decided: it is no more what moves meanwhile.
    await price('ask', 4, 'provider_a', 10)
    const reader = await openRangeReader(kafka, [kafka.topicName('book'), kafka.topicName('bookChanges')])
    const ids = openTopicIds(kafka)
    const read = openRowReader({ kafka, reader, ids })
    const books = [openItemBook(), openItemBook()]
    await Promise.all(books.map(book => read({ partition: partitionOfItem(3), book })))
    expect(books.map(book => book.best(3).ask)).to.deep.equal([10 * USD, 10 * USD])
    await ids.close()
    await reader.close()
  })
})
