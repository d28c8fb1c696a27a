import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { Database } from '#infra/postgres/pool.ts'
import { openMetrics } from '#infra/runtime/metrics.ts'
import type { AlertTriggered } from '#schemas/events/alert-triggered.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import { changeAlert, createAlerts, deleteAlert, type NewAlert } from '#services/alerts/rules/commands.ts'
import { startRelay } from '#services/alerts/rules/outbox-relay.ts'
import type { StoredAlert } from '#services/alerts/rules/reader.ts'
import { openTriggerApplier } from '#services/alerts/rules/trigger-applier.ts'
import { recordOf, triggerOf, write } from '#test/fixtures/sink-records.ts'
import { eventually } from '#test/harness/eventually.ts'
import { readTopic } from '#test/harness/read-topic.ts'
import { runCommand } from '#test/harness/run-command.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { whileLocked } from '#test/harness/while-locked.ts'

type StoredRow = { is_enabled: boolean; version: string; threshold_value: string }

describe('writes of alerts', () => {
  const platform = useServers()
  let database: Database
  let nextPartition = 0

  before(() => {
    database = platform.openDatabase({ connections: 16 })
  })

  const newAccount = async () => (await createAccountWithKey(database, { tier: 'pro' })).account_id
  const terms = (most = 500, mostInAll = 5_000) => ({ most, mostInAll, now: Date.now() })
  const wanted = (more: Partial<NewAlert> = {}): NewAlert => ({
    item_id: 7,
    market_hash_name: 'item 7',
    phase: null,
    kind: 'price_below',
    threshold_value: '10',
    threshold_currency: 'USD',
    is_enabled: true,
    ...more,
  })
  const create = async (accountId: string, more: Partial<NewAlert> = {}): Promise<StoredAlert> =>
    (await createAlerts(database, accountId, [wanted(more)], terms()))[0] as StoredAlert
  const refusalsOf = async (tries: Promise<unknown>[]): Promise<string[]> =>
    (await Promise.allSettled(tries)).flatMap(one => (one.status === 'rejected' ? [one.reason.code] : []))
  const stored = async (id: string) => (await database.rows<StoredRow>('SELECT * FROM alerts WHERE id = $1', [id]))[0]
  const eventsOf = (alertId: string) =>
    database.rows<{ alert_version: string }>('SELECT * FROM alert_events WHERE alert_id = $1 ORDER BY alert_version', [
      alertId,
    ])
  const jobs = async (eventIds: unknown[]) =>
    (await database.rows('SELECT key FROM graphile_worker.jobs WHERE key = ANY ($1)', [eventIds])).length
  const recordsOf = (triggers: readonly AlertTriggered[], from = 0) =>
    triggers.map((trigger, at) => recordOf('AlertTriggered', trigger, from + at, 'alertsTriggered'))
  const newApplier = () =>
    openTriggerApplier(database, 100 + nextPartition++, { stored: undefined, position: undefined })

  // First, since a relay sends what the others leave in the outbox.
  describe('the outbox', () => {
    let kafka: KafkaConnection
    const relays: ReturnType<typeof startRelay>[] = []
    before(() => {
      kafka = platform.connect()
    })

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
              changes: { threshold_value: String(random.integer(1, 99)), is_enabled: random.chance(0.5) },
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
        const row = await stored(id)
        expected.set(id, `${row?.version} ${row?.is_enabled} ${row?.threshold_value}`)
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
      await changeAlert(database, accountId, alert.id, { ...terms(), changes: { is_enabled: false } })
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
      await changeAlert(database, accountId, kept.id, { ...terms(), changes: { threshold_value: '11' } })
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
      const { code, stdout, stderr } = await runCommand(['dead-letters', 'list', '--group', 'alerts'], {
        PATH: process.env.PATH,
        ...platform.environment,
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
  })

  describe('a cap', () => {
    it('holds however many create or enable at the same time', async () => {
      const accountId = await newAccount()
      const disabled = Array.from({ length: 20 }, () => wanted({ is_enabled: false }))
      const alerts = await createAlerts(database, accountId, disabled, terms(10))
      const enable = { ...terms(10), changes: { is_enabled: true } }
      const tries: Promise<unknown>[] = alerts.map(({ id }) => changeAlert(database, accountId, id, enable))
      for (let i = 0; i < 10; i++) tries.push(createAlerts(database, accountId, [wanted()], terms(10)))
      expect(await refusalsOf(tries)).to.deep.equal(Array(20).fill('ALERT_LIMIT_REACHED'))
    })

    it('of all alerts holds for disabled ones too, however many are created at the same time', async () => {
      // Two thousand a minute used to pass, each stored, searched and sent to the log.
      const accountId = await newAccount()
      const batch = (size: number) => Array.from({ length: size }, () => wanted({ is_enabled: false }))
      const tries = Array.from({ length: 12 }, () => createAlerts(database, accountId, batch(3), terms(1, 20)))
      expect(await refusalsOf(tries)).to.deep.equal(Array(6).fill('ALERT_LIMIT_REACHED'))
      const [one] = await createAlerts(database, accountId, batch(2), terms(1, 20))
      const more = () => createAlerts(database, accountId, batch(1), terms(1, 20))
      const refusal = (await more().catch(error => error)) as { code: string; detail: string }
      expect([refusal.code, refusal.detail]).to.deep.equal([
        'ALERT_LIMIT_REACHED',
        'This tier has 20 alerts at most, disabled ones too; there are 20. Delete some first.',
      ])
      await deleteAlert(database, accountId, (one as StoredAlert).id)
      expect(await more()).to.have.length(1)
    })
  })

  describe('a trigger', () => {
    it('disarms its alert, records one event and queues one job, whatever is repeated', async () => {
      const alert = await create(await newAccount())
      const sink = newApplier()
      const records = recordsOf([triggerOf(alert.id, 1), triggerOf(alert.id, 1)])
      await write(sink, records)
      await write(sink, recordsOf([triggerOf(alert.id, 1)], 2))
      const events = await eventsOf(alert.id)
      expect(events.map(event => event.alert_version)).to.deep.equal(['1'])
      expect(await stored(alert.id)).to.include({ is_enabled: false, version: '2' })
      expect(await jobs(events.map(event => (event as unknown as { id: string }).id))).to.equal(1)
    })

    it('of a former version does not disarm an alert that was enabled again', async () => {
      const accountId = await newAccount()
      const alert = await create(accountId)
      const sink = newApplier()
      await write(sink, recordsOf([triggerOf(alert.id, 1)]))
      await changeAlert(database, accountId, alert.id, { ...terms(), changes: { is_enabled: true } })
      await write(sink, recordsOf([triggerOf(alert.id, 1), triggerOf(alert.id, 2)], 1))
      expect(await stored(alert.id)).to.include({ is_enabled: true, version: '3' })
      expect(await eventsOf(alert.id)).to.have.length(1)
      await write(sink, recordsOf([triggerOf(alert.id, 3)], 3))
      expect(await stored(alert.id)).to.include({ is_enabled: false, version: '4' })
      expect(await eventsOf(alert.id)).to.have.length(2)
    })

    it('of an alert that is gone, or disabled, does nothing', async () => {
      const accountId = await newAccount()
      const [gone, off] = [await create(accountId), await create(accountId, { is_enabled: false })]
      await deleteAlert(database, accountId, gone.id)
      await write(newApplier(), recordsOf([triggerOf(gone.id, 1), triggerOf(off.id, 1)]))
      expect([...(await eventsOf(gone.id)), ...(await eventsOf(off.id))]).to.deep.equal([])
    })

    it('that the tables cannot store becomes a dead letter, and the other records are applied', async () => {
      const alert = await create(await newAccount())
      const sink = newApplier()
      const [good] = recordsOf([triggerOf(alert.id, 1)])
      for (const wrong of [{ alert_id: "'; DROP TABLE alerts" }, { triggered_value: 'NaN' }]) {
        const [record] = recordsOf([{ ...triggerOf(alert.id, 1), ...wrong }])
        expect(record && sink.apply(record)).to.include({ kind: 'deadLetter', reason: 'unusable_trigger' })
      }
      await write(sink, good ? [good] : [])
      expect(await eventsOf(alert.id)).to.have.length(1)
    })

    it('races with changes of its owner: one event per version that was enabled, and none else', async () => {
      const random = seededRandom('races of alerts')
      const accountId = await newAccount()
      const alerts = await Promise.all(Array.from({ length: 12 }, () => create(accountId)))
      const enabledVersions = new Map(alerts.map(({ id }) => [id, new Set([1])]))
      const toggle = async (id: string) => {
        const changed = await changeAlert(database, accountId, id, {
          ...terms(),
          changes: { is_enabled: random.chance(0.6) },
        })
        if (changed.is_enabled) enabledVersions.get(id)?.add(changed.version)
      }
      const fire = async (sink: ReturnType<typeof newApplier>, from: number) => {
        const versions = alerts.map(async ({ id }) =>
          triggerOf(id, Number((await stored(id))?.version) - random.integer(0, 1)),
        )
        await write(sink, recordsOf(await Promise.all(versions), from))
      }
      const sinks = [newApplier(), newApplier()]
      // Before the races, so that some fire however those end.
      await fire(newApplier(), 0)
      for (let round = 0; round < 15; round++) {
        await Promise.all([
          ...alerts.map(({ id }) => toggle(id)),
          ...sinks.map(sink => fire(sink, round * alerts.length)),
        ])
      }
      let fired = 0
      for (const { id } of alerts) {
        const versions = (await eventsOf(id)).map(event => Number(event.alert_version))
        expect(new Set(versions).size).to.equal(versions.length)
        for (const version of versions)
          expect(enabledVersions.get(id)?.has(version), `version ${version}`).to.equal(true)
        fired += versions.length
      }
      expect(fired).to.be.above(0)
    })
  })
})
