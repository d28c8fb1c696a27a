/**
 * The write side of alerts where it meets itself: caps under concurrency, triggers that repeat, come late or race with
 * changes.
 */
import { expect } from 'chai'
import type { Database } from '#infra/postgres/pool.ts'
import { openUuidSource } from '#infra/runtime/uuid-v7.ts'
import type { AlertTriggered } from '#schemas/events/alert-triggered.ts'
import { createAccountWithKey } from '#services/accounts/keys/commands.ts'
import { changeAlert, createAlerts, deleteAlert, type NewAlert } from '#services/alerts/rules/commands.ts'
import { deleteOldAlertEvents } from '#services/alerts/rules/main.ts'
import type { StoredAlert } from '#services/alerts/rules/reader.ts'
import { openTriggerApplier, readPosition } from '#services/alerts/rules/trigger-applier.ts'
import type { Position } from '#streams/runner/positions.ts'
import { positionAt, recordOf, write } from '#test/fixtures/sink-records.ts'
import { seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'

const DAY_MS = 86_400_000
const newId = openUuidSource()

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
    itemId: 7,
    marketHashName: 'item 7',
    phase: null,
    kind: 'price_below',
    thresholdValue: '10',
    thresholdCurrency: 'USD',
    isEnabled: true,
    ...more,
  })
  const create = async (accountId: string, more: Partial<NewAlert> = {}): Promise<StoredAlert> =>
    (await createAlerts(database, accountId, [wanted(more)], terms()))[0] as StoredAlert
  const stored = async (id: string) =>
    (await database.rows<{ is_enabled: boolean; version: string }>('SELECT * FROM alerts WHERE id = $1', [id]))[0]
  const eventsOf = (alertId: string) =>
    database.rows<{ alert_version: string }>('SELECT * FROM alert_events WHERE alert_id = $1 ORDER BY alert_version', [
      alertId,
    ])
  const jobs = async (eventIds: unknown[]) =>
    (await database.rows('SELECT key FROM graphile_worker.jobs WHERE key = ANY ($1)', [eventIds])).length
  const triggerOf = (id: string, version: number): AlertTriggered => ({
    alert_id: id,
    version,
    item_id: 7,
    kind: 'price_below',
    triggered_value: '9.50',
    triggered_currency: 'USD',
    best_ask_micro_usd: 9_500_000,
    best_bid_micro_usd: null,
    ask_provider: 'provider_01',
    bid_provider: null,
    cause: 'book',
    caused_at: Date.now(),
  })
  const recordsOf = (triggers: readonly AlertTriggered[], from = 0) =>
    triggers.map((trigger, at) => recordOf('AlertTriggered', trigger, from + at, 'alertsTriggered'))
  const applier = (partition: number, stored?: Position) =>
    openTriggerApplier({ database, newId, now: Date.now }, partition, { stored, position: stored })
  const newApplier = () => applier(100 + nextPartition++)

  describe('a cap', () => {
    it('holds however many create at the same time', async () => {
      const accountId = await newAccount()
      const tries = Array.from({ length: 24 }, () => createAlerts(database, accountId, [wanted()], terms(10)))
      const ended = await Promise.allSettled(tries)
      const codes = ended.flatMap(each => (each.status === 'rejected' ? [each.reason.code] : []))
      expect(codes).to.deep.equal(Array.from({ length: 14 }, () => 'ALERT_LIMIT_REACHED'))
    })

    it('of all alerts holds for disabled ones too, however many are created at the same time', async () => {
      // Two thousand a minute used to pass, each stored, searched and sent to the log.
      const accountId = await newAccount()
      const batch = (size: number) => Array.from({ length: size }, () => wanted({ isEnabled: false }))
      const tries = Array.from({ length: 12 }, () => createAlerts(database, accountId, batch(3), terms(1, 20)))
      const ended = await Promise.allSettled(tries)
      const codes = ended.flatMap(each => (each.status === 'rejected' ? [each.reason.code] : []))
      expect(codes).to.deep.equal(Array.from({ length: 6 }, () => 'ALERT_LIMIT_REACHED'))
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

    it('holds however many are enabled at the same time', async () => {
      const accountId = await newAccount()
      const alerts = await createAlerts(
        database,
        accountId,
        Array.from({ length: 20 }, () => wanted({ isEnabled: false })),
        terms(10),
      )
      const enable = { ...terms(10), changes: { isEnabled: true } }
      const ended = await Promise.allSettled(alerts.map(({ id }) => changeAlert(database, accountId, id, enable)))
      expect(ended.filter(each => each.status === 'fulfilled')).to.have.length(10)
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
      await changeAlert(database, accountId, alert.id, { ...terms(), changes: { isEnabled: true } })
      await write(sink, recordsOf([triggerOf(alert.id, 1), triggerOf(alert.id, 2)], 1))
      expect(await stored(alert.id)).to.include({ is_enabled: true, version: '3' })
      expect(await eventsOf(alert.id)).to.have.length(1)
      await write(sink, recordsOf([triggerOf(alert.id, 3)], 3))
      expect(await stored(alert.id)).to.include({ is_enabled: false, version: '4' })
      expect(await eventsOf(alert.id)).to.have.length(2)
    })

    it('of an alert that is gone, or disabled, does nothing', async () => {
      const accountId = await newAccount()
      const [gone, off] = [await create(accountId), await create(accountId, { isEnabled: false })]
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

    it('has no effect when its batch fails, and all of it when the batch comes again', async () => {
      const alert = await create(await newAccount())
      const failing: Database = {
        ...database,
        transaction: work =>
          database.transaction(async query => {
            await work(query)
            throw new Error('the connection is lost before the commit')
          }),
      }
      const partition = 100 + nextPartition++
      const lost = openTriggerApplier({ database: failing, newId, now: Date.now }, partition, {
        stored: undefined,
        position: undefined,
      })
      await write(lost, recordsOf([triggerOf(alert.id, 1)])).then(
        () => expect.fail('it should have failed'),
        () => undefined,
      )
      expect(await stored(alert.id)).to.include({ is_enabled: true, version: '1' })
      expect(await readPosition(database, partition)).to.equal(undefined)
      await write(applier(partition), recordsOf([triggerOf(alert.id, 1)]))
      expect(await eventsOf(alert.id)).to.have.length(1)
      expect(await readPosition(database, partition)).to.deep.equal(positionAt(1))
    })

    it('races with changes of its owner: one event per version that was enabled, and none else', async () => {
      const random = seededRandom('races of alerts')
      const accountId = await newAccount()
      const alerts = await Promise.all(Array.from({ length: 12 }, () => create(accountId)))
      const enabledVersions = new Map(alerts.map(({ id }) => [id, new Set([1])]))
      const toggle = async (id: string) => {
        const changed = await changeAlert(database, accountId, id, {
          ...terms(),
          changes: { isEnabled: random.chance(0.6) },
        })
        if (changed.isEnabled) enabledVersions.get(id)?.add(changed.version)
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

  it('events are kept for 90 days and not longer', async () => {
    const accountId = await newAccount()
    const alerts = await Promise.all(Array.from({ length: 3 }, () => create(accountId)))
    const now = Date.UTC(2030, 5, 1)
    const ages = [91 * DAY_MS, 90 * DAY_MS - 1_000, 0]
    for (const [at, { id }] of alerts.entries()) {
      const sink = openTriggerApplier({ database, newId, now: () => now - (ages[at] ?? 0) }, 300 + at, {
        stored: undefined,
        position: undefined,
      })
      await write(sink, recordsOf([triggerOf(id, 1)]))
    }
    await deleteOldAlertEvents(database, now)
    const left = await database.rows<{ alert_id: string }>('SELECT alert_id FROM alert_events WHERE account_id = $1', [
      accountId,
    ])
    expect(left.map(event => event.alert_id).sort()).to.deep.equal(
      alerts
        .slice(1)
        .map(({ id }) => id)
        .sort(),
    )
  })
})
