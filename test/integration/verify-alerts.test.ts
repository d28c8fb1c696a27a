import { expect } from 'chai'
import { loadTiers } from '#infra/config/tiers.ts'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { openRangeReader, type RangeReader } from '#infra/kafka/range-reader.ts'
import { openTopicIds } from '#infra/kafka/topic-ids.ts'
import type { Database } from '#infra/postgres/pool.ts'
import { partitionOfItem } from '#schemas/values/item-partition.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import { createAlerts, deleteAlert, type NewAlert } from '#services/alerts/rules/commands.ts'
import { findingsOf, rebuild, verify } from '#services/cli/log-tools/views.ts'
import { openItemBook } from '#streams/alert-triggers/item-book.ts'
import { openRowReader } from '#streams/alert-triggers/rows.ts'
import { type AlertMarket, openAlertMarket } from '#test/fixtures/alert-market.ts'
import { collectOutput, contextOf } from '#test/harness/collected-output.ts'
import { eventually } from '#test/harness/eventually.ts'
import type { StartedRoles } from '#test/harness/start-roles.ts'
import { useServers } from '#test/harness/use-servers.ts'

const USD = 1_000_000
const ITEMS = 30

describe('alerts, verified', () => {
  const platform = useServers()
  let kafka: KafkaConnection
  let market: AlertMarket
  let database: Database
  let accountId: string
  let triggers: StartedRoles

  before(async () => {
    kafka = platform.connect()
    market = await openAlertMarket(kafka)
    database = platform.database
    accountId = (await createAccountWithKey(database, { tier: 'quant' })).account_id
    await platform.startRoles(['alerts'])
    triggers = await platform.startRoles(['alert-triggers'])
    await market.rates({ EUR: '0.5' })
  })
  after(async () => {
    await market.close()
  })

  const alertOn = (itemId: number, changes: Partial<NewAlert> = {}): NewAlert => ({
    item_id: itemId,
    market_hash_name: `item ${itemId}`,
    phase: null,
    kind: 'price_below',
    threshold_value: '10.5',
    threshold_currency: 'USD',
    is_enabled: true,
    ...changes,
  })
  const create = async (alerts: readonly NewAlert[]): Promise<string[]> => {
    const { enabled_alerts: most, alerts: mostInAll } = loadTiers().quant
    const terms = { most, mostInAll, now: Date.now() }
    return (await createAlerts(database, accountId, alerts, terms)).map(({ id }) => id)
  }
  const price = (itemId: number, usd: number, side: 'ask' | 'bid' = 'ask') =>
    market.move([{ side, provider: 'provider_02', itemId, micro: usd * USD }])
  const eventsOf = async (ids: readonly string[]): Promise<number> =>
    (await database.rows('SELECT FROM alert_events WHERE alert_id = ANY ($1::uuid[])', [ids])).length
  const haveFired = (ids: readonly string[]) =>
    eventually(async () => (await eventsOf(ids)) === ids.length, `${ids.length} alerts to fire`)
  const check = () => findingsOf(platform.config, platform.log, 'alerts', () => undefined)

  it('agree with the log, fired and waiting ones', async () => {
    const items = Array.from({ length: ITEMS }, (_, item) => item + 1)
    for (const item of items) await price(item, 20)
    await create(items.map(item => alertOn(item)))
    const fired = await create([
      ...items.slice(0, 10).map(item => alertOn(item, { kind: 'price_above', threshold_value: '19' })),
      alertOn(3, { threshold_value: '10.01', threshold_currency: 'EUR' }),
    ])
    await haveFired(fired)
    await create([alertOn(6, { kind: 'price_above', threshold_currency: 'EUR' })])
    // The tombstone of its rule used to be passed over: verify missed the alert.
    const [deleted = ''] = await create([alertOn(7, { threshold_value: '1' })])
    await deleteAlert(database, accountId, deleted)
    // It would fire by this table, which is passed over by the roles as by the tool for the rate that is none; so is poison.
    await market.rates({ EUR: '5', GBP: 'none' })
    const ingest = await platform.openPublisher(kafka, 'ingest')
    await ingest.send([{ topic: 'fx', key: 'USD', value: Buffer.from('no event') }])
    // An event is relayed before its alert is, and a check between the two leaves the alert out.
    const compared = await eventually(async () => {
      const found = await check()
      expect(found).to.deep.include({ not_compared: {}, differences: 0, examples: [] })
      return found.compared
    }, 'tables that agree with the log')
    // A rule and a condition of each that waits, a rule and an event of each that fired.
    expect(compared).to.equal(2 * (ITEMS + 1) + 2 * fired.length)
  })

  it('differ where a table was changed by hand: a rule, an alert that should have fired, an event', async () => {
    const [changed = '', late = '', relayed = ''] = await create([
      alertOn(1, { threshold_value: '9' }),
      alertOn(2, { threshold_value: '8' }),
      alertOn(4, { kind: 'price_above', threshold_value: '18' }),
    ])
    await haveFired([relayed])
    const [event] = await database.rows<{ id: string }>('SELECT id FROM alert_events WHERE alert_id = $1', [relayed])
    await eventually(async () => (await check()).differences === 0)
    await database.rows(`UPDATE alerts SET threshold_value = 7 WHERE id = $1`, [changed])
    await database.rows(`UPDATE alerts SET threshold_value = 30 WHERE id = $1`, [late])
    await database.rows(`UPDATE alert_events SET best_ask_micro_usd = 5 WHERE id = $1`, [event?.id])
    const output = collectOutput()
    const failure = await verify(contextOf(platform, output), 'alerts').catch(error => error)
    expect(failure.exitCode).to.equal(1)
    const found = output.lines().filter(({ kind }) => kind !== undefined)
    expect(found.map(({ kind, row }) => `${kind} ${row}`)).to.have.members([
      `different rule ${changed}`,
      `different rule ${late}`,
      `different condition ${late}`,
      `different event ${event?.id}`,
    ])
    await database.rows(`UPDATE alerts SET threshold_value = 9 WHERE id = $1`, [changed])
    await database.rows(`UPDATE alerts SET threshold_value = 8 WHERE id = $1`, [late])
    await database.rows(`UPDATE alert_events SET best_ask_micro_usd = $2 WHERE id = $1`, [event?.id, 20 * USD])
    expect((await check()).examples).to.deep.equal([])
  })

  it('fire after a rebuild as they would have before it, and once', async () => {
    const ids = await create([21, 22, 23, 24].map(item => alertOn(item, { threshold_value: '6' })))
    await eventually(async () => (await check()).differences === 0)
    const output = collectOutput()
    const options = { acceptLoss: false, signal: new AbortController().signal }
    const rebuilding = rebuild(contextOf(platform, output), 'alerts', options)
    await price(21, 5)
    await rebuilding
    expect(output.lines()[0]).to.include({ view: 'alerts', members: 1 })
    await price(22, 5)
    await haveFired(ids.slice(0, 2))
    await eventually(async () => expect((await check()).examples).to.deep.equal([]) !== undefined, 'agreement')
    await triggers.stop()
    const failed = rebuild(contextOf(platform, output), 'alerts', options)
    expect(await failed.catch(error => error.message)).to.include('alert-triggers does not run')
  })

  it('are opened on rows that hold what changed while the book was read', async () => {
    const [item, topic] = [21, kafka.topicName('bookChanges')]
    const partition = partitionOfItem(item)
    const reader = await openRangeReader(kafka, [topic, kafka.topicName('book')])
    // The end of the changes is asked for when the book has been read.
    const moved: RangeReader = {
      ...reader,
      async end(of, at) {
        if (of === topic) await price(item, 3)
        return reader.end(of, at)
      },
    }
    const book = openItemBook()
    const ids = openTopicIds(kafka)
    const { next } = await openRowReader({ kafka, reader: moved, ids })({ partition, book })
    expect(book.best(item).ask).to.equal(3 * USD)
    // Behind it there is the marker of the last transaction at most, which the broker writes when it has answered.
    const range = { from: next, to: await reader.stableEnd(topic, partition) }
    for await (const page of reader.range(topic, new Map([[partition, range]]))) expect(page).to.deep.equal([])
    await ids.close()
    await reader.close()
  })
})
