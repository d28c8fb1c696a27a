/**
 * The outbox of alerts: what it leaves in the log is the last state of each alert, whatever crashes, freezes or cannot be published.
 */
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import { openTransactionalProducer } from '#infra/kafka/transactional-producer.ts'
import type { Database } from '#infra/postgres/pool.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import { changeAlert, createAlerts, deleteAlert } from '#services/alerts/rules/commands.ts'
import { type Relay, startRelay } from '#services/alerts/rules/outbox-relay.ts'
import type { StoredAlert } from '#services/alerts/rules/reader.ts'
import { eventually } from '#test/harness/eventually.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import { runCommand } from '#test/harness/run-command.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { whileLocked } from '#test/harness/while-locked.ts'

describe('the outbox', () => {
  const platform = useServers()
  let kafka: KafkaConnection
  let database: Database
  const relays: Relay[] = []

  before(() => {
    kafka = platform.connect()
    database = platform.openDatabase({ connections: 16 })
  })

  const newAccount = async () => (await createAccountWithKey(database, { tier: 'pro' })).account_id
  const terms = () => ({ most: 500, mostInAll: 5_000, now: Date.now() })
  const create = async (accountId: string): Promise<StoredAlert> => {
    const item = { itemId: 7, marketHashName: 'item 7', phase: null }
    const rule = { kind: 'price_below', thresholdValue: '10', thresholdCurrency: 'USD', isEnabled: true } as const
    return (await createAlerts(database, accountId, [{ ...item, ...rule }], terms()))[0] as StoredAlert
  }
  const stored = async (id: string) => (await database.rows('SELECT * FROM alerts WHERE id = $1', [id]))[0]
  const relay = () => {
    const started = startRelay({ database, kafka, log: platform.log, metrics: openMetrics() })
    relays.push(started)
    return started
  }
  const isEmpty = async () => (await database.rows('SELECT id FROM outbox LIMIT 1')).length === 0
  const states = async (): Promise<[key: string, state: string | undefined][]> =>
    (await readTopic(kafka, 'alertRules')).map(({ key, value }) => [
      key,
      value && `${value.version} ${value.is_enabled} ${value.threshold_value}`,
    ])
  afterEach(async () => {
    for (const one of relays.splice(0)) await one.stop()
  })

  it('leaves the last state of each alert last, with two relays that take over from each other', async () => {
    const random = seededRandom('the outbox')
    const accountId = await newAccount()
    const alerts = await Promise.all(Array.from({ length: 20 }, () => create(accountId)))
    relay()
    let second = relay()
    for (let round = 0; round < 12; round++) {
      await Promise.all(
        alerts.map(({ id }) =>
          changeAlert(database, accountId, id, {
            ...terms(),
            changes: { thresholdValue: String(random.integer(1, 99)), isEnabled: random.chance(0.5) },
          }),
        ),
      )
      if (round % 4 === 1) {
        await relays.shift()?.stop()
        second = relay()
      }
    }
    const gone = alerts.slice(0, 5)
    for (const { id } of gone) await deleteAlert(database, accountId, id)
    await eventually(isEmpty, 'the outbox to be relayed')
    await second.stop()
    const expected = new Map<string, string | undefined>(gone.map(({ id }) => [id, undefined]))
    for (const { id } of alerts.slice(5)) {
      const row = (await stored(id)) as unknown as { version: string; is_enabled: boolean; threshold_value: string }
      expected.set(id, `${row.version} ${row.is_enabled} ${row.threshold_value}`)
    }
    // The broker shows a transaction some time after it has answered for it.
    await eventually(async () => {
      const last = new Map(await states())
      expect(new Map(alerts.map(({ id }) => [id, last.has(id) ? last.get(id) : 'never']))).to.deep.equal(expected)
      return true
    }, 'the last states in the log')
  })

  it('sends again what a crash left undeleted, from the oldest on', async () => {
    const accountId = await newAccount()
    const alert = await create(accountId)
    await changeAlert(database, accountId, alert.id, { ...terms(), changes: { isEnabled: false } })
    const undeleted = await database.rows('SELECT * FROM outbox WHERE key = $1 ORDER BY id', [alert.id])
    relay()
    await eventually(isEmpty, 'the outbox to be relayed')
    // As after a kill between the log's answer and the deletion.
    for (const row of undeleted) {
      await database.rows('INSERT INTO outbox (topic, key, partition_key, payload) VALUES ($1, $2, $3, $4)', [
        ...[row.topic, row.key, row.partition_key, JSON.stringify(row.payload)],
      ])
    }
    await eventually(isEmpty, 'the outbox to be relayed again')
    await eventually(async () => {
      const sent = (await states()).flatMap(([key, state]) => (key === alert.id ? [state] : []))
      expect(sent).to.deep.equal(['1 true 10', '2 false 10', '1 true 10', '2 false 10'])
      return true
    }, 'both rows in the log once more')
  })

  it('goes on past rows that the log cannot take: they are dead letters, and bring nothing back', async () => {
    // One such row used to stop all rules.
    const accountId = await newAccount()
    const [kept, gone] = [await create(accountId), await create(accountId)]
    const [payload] = await database.rows<{ payload: object }>('SELECT payload FROM outbox WHERE key = $1', [gone.id])
    const whole = { ...payload?.payload, version: 2 }
    const bad: [reason: string, topic: string, key: string, payload: unknown][] = [
      ['unknown_topic', 'accounts.elsewhere', gone.id, whole],
      ['unusable_rule', 'accounts.alert-rules', gone.id, { ...whole, kind: 'price_beside' }],
      ['unusable_rule', 'accounts.alert-rules', gone.id, { ...whole, version: '2' }],
      ['unusable_rule', 'accounts.alert-rules', gone.id, { ...whole, version: 2 ** 60 }],
      ['unusable_rule', 'accounts.alert-rules', gone.id, { alert_id: gone.id }],
      ['unusable_rule', 'accounts.alert-rules', gone.id, ['no', 'rule']],
      ['unusable_rule', 'accounts.alert-rules', kept.id, 7],
      ['rule_too_large', 'accounts.alert-rules', kept.id, { ...whole, threshold_value: '1'.repeat(2_000_000) }],
      ['rule_too_large', 'accounts.alert-rules', 'k'.repeat(2_000_000), null],
    ]
    const ids: string[] = []
    for (const [, ...row] of bad) {
      const [topic, key, value] = row
      const [added] = await database.rows<{ id: string }>(
        'INSERT INTO outbox (topic, key, partition_key, payload) VALUES ($1, $2, $3, $4) RETURNING id',
        [topic, key, '7', value === null ? null : JSON.stringify(value)],
      )
      ids.push(added?.id as string)
    }
    await changeAlert(database, accountId, kept.id, { ...terms(), changes: { thresholdValue: '11' } })
    await deleteAlert(database, accountId, gone.id)
    const first = relay()
    await eventually(isEmpty, 'the outbox to be relayed')
    // Nothing of it comes again, by another process neither.
    await first.stop()
    relay()
    const last = await create(accountId)
    await eventually(async () => (await states()).some(([key]) => key === last.id), 'the rule of the next process')
    const all = await states()
    const statesOf = (id: string) => all.flatMap(([key, state]) => (key === id ? [state] : []))
    expect(statesOf(kept.id)).to.deep.equal(['1 true 10', '2 true 11'])
    expect(statesOf(gone.id)).to.deep.equal(['1 true 10', undefined])
    const { code, stdout, stderr } = await runCommand(['dead-letters', 'list', '--group', 'accounts'], {
      ...{ PATH: process.env.PATH, ...platform.environment },
    })
    expect(code, stderr).to.equal(0)
    const letters = stdout.split('\n').flatMap(line => (line === '' ? [] : [JSON.parse(line)]))
    expect(letters.map(({ topic, offset, reason }) => [topic, String(offset), reason])).to.deep.equal(
      bad.map(([reason], at) => ['outbox', ids[at], reason]),
    )
  })

  it('reports how many rows wait and since when, also where another process is to relay them', async () => {
    const metrics = openMetrics()
    const accountId = await newAccount()
    for (let i = 0; i < 3; i++) await create(accountId)
    const measured = async () =>
      Promise.all(
        ['rows', 'age_seconds'].map(
          async name => (await metrics.registry.getSingleMetric(`marketlog_outbox_${name}`)?.get())?.values[0]?.value,
        ),
      )
    // A process that has frozen keeps the lock of the relay.
    const relayed = await whileLocked(database, ['SELECT pg_advisory_xact_lock(7236415)'], async () => {
      const started = startRelay({ database, kafka, log: platform.log, metrics })
      relays.push(started)
      await eventually(async () => (await measured())[0] === 3, 'the depth')
      expect(started.overdue()).to.equal(undefined)
      await database.rows(`UPDATE outbox SET created_at = created_at - interval '90 seconds'`)
      const overdue = await eventually(() => started.overdue(), 'the report')
      expect(overdue).to.match(/^changes of alerts have waited \d+ s for the log$/)
      expect((await measured())[1]).to.be.at.least(90)
      return started
    })
    await eventually(isEmpty, 'the outbox to be relayed')
    await eventually(() => relayed.overdue() === undefined, 'the end of the report')
    await eventually(async () => (await measured()).every(value => value === 0), 'the gauges at rest')
  })

  it('refuses what a former owner still has in hand', async () => {
    await kafka.codec.prepare([])
    const open = () => openTransactionalProducer(kafka, { transactionalId: 'outbox-test', writers: ['accounts'] })
    const [former, latter] = [await open(), await open()]
    const nothing = () => Promise.resolve()
    await former.lock(nothing)
    const record = { topic: 'alertRules' as const, key: 'test', value: null, partition: 0 }
    await former.commit([record])
    await latter.lock(nothing)
    const fenced = await former.commit([record]).then(
      () => false,
      () => true,
    )
    expect(fenced).to.equal(true)
    await latter.commit([record])
    await Promise.all([former.close(), latter.close()])
  })
})
