/**
 * What is forgotten after 90 days, and what it finds that was left behind.
 *
 * The role's own clock does both, too: rows are made and taken within one transaction, which it does not see.
 */
import { expect } from 'chai'
import { HOUR_MS } from '#schemas/values/instant.ts'
import { queueFanOut } from '#services/alerts/delivery/fan-out.ts'
import { forgetOld, pickUpLeft, queueDestination } from '#services/alerts/delivery/store.ts'
import {
  EVENT,
  openWebhookScenario,
  type TestAccount,
  type WebhookScenario,
  writeEvent,
} from '#test/fixtures/webhook-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { useServers } from '#test/harness/use-servers.ts'

const never = new AbortController().signal
const OVERDUE = `UPDATE webhook_deliveries SET status = 'pending', completed_at = NULL,
  next_attempt_at = now() - interval '2 minutes'`

describe('housekeeping of deliveries', () => {
  const platform = useServers()
  let scenario: WebhookScenario
  let account: TestAccount
  before('roles', async () => {
    scenario = await openWebhookScenario(platform)
    account = await scenario.account({ email: 'kept@example.com' })
    await scenario.webhook(account, scenario.receivers[0] as (typeof scenario.receivers)[number])
  })
  after('end of them', () => scenario.close())

  const count = async (table: string): Promise<number> =>
    (await scenario.database.rows<{ n: number }>(`SELECT count(*)::int AS n FROM ${table}`))[0]?.n ?? -1
  const PENDING = `SELECT 1 FROM webhook_deliveries WHERE status = 'pending' UNION ALL
    SELECT 1 FROM email_deliveries WHERE status = 'pending' UNION ALL SELECT 1 FROM graphile_worker.jobs`
  const settled = () =>
    eventually(async () => (await scenario.database.rows(PENDING)).length === 0, 'all to be settled')

  it('keeps 90 days, events, attempts and mails included, and forgets what is older', async () => {
    const ids = await scenario.events([account, account, account])
    await settled()
    await scenario.database.transaction(async rows => {
      for (const [table, event] of [
        ['webhook_deliveries', 'event_id'],
        ['email_deliveries', 'event_id'],
        ['alert_events', 'id'],
      ]) {
        await rows(
          `UPDATE ${table} SET created_at = now() - CASE ${event} WHEN $1::uuid THEN interval '90 days 1 minute'
            ELSE interval '89 days 23 hours' END`,
          [ids[0]],
        )
      }
      await forgetOld({ rows }, never)
    })
    const tables = ['webhook_deliveries', 'email_deliveries', 'webhook_attempts', 'alert_events']
    expect(await Promise.all(tables.map(count))).to.deep.equal([2, 2, 2, 2])
    const left = await scenario.database.rows<{ event_id: string }>('SELECT event_id FROM webhook_deliveries')
    expect(left.map(({ event_id }) => event_id)).to.have.members(ids.slice(1))
  })

  it('forgets any number, and stops when it is aborted', async () => {
    const left = await scenario.database.transaction(async query => {
      const old = async () =>
        (await query(`SELECT FROM email_deliveries WHERE created_at < now() - interval '91 days'`)).length
      await query(
        `INSERT INTO email_deliveries (id, account_id, event_id, status, created_at, completed_at)
          SELECT gen_random_uuid(), $1, gen_random_uuid(), 'failed', now() - interval '100 days', now()
          FROM generate_series(1, 2500)`,
        [account.id],
      )
      await forgetOld({ rows: query }, AbortSignal.abort())
      const before = await old()
      await forgetOld({ rows: query }, never)
      return [before, await old()]
    })
    expect(left).to.deep.equal([2_500, 0])
  })

  for (const [what, hasJob] of [
    ['a job to what is due and has none', false],
    ['its job at once to what is due, as after a job that failed often', true],
  ] as const)
    it(`gives ${what}`, async () => {
      const { received } = scenario.receivers[0] as (typeof scenario.receivers)[number]
      const before = received.length
      const pickedUp = await scenario.database.transaction(async rows => {
        await rows(OVERDUE)
        const [row] = await rows<{ endpoint_id: string }>('SELECT endpoint_id FROM webhook_deliveries LIMIT 1')
        const later = new Date(Date.now() + HOUR_MS).toISOString()
        if (hasJob) await queueDestination(rows, row?.endpoint_id ?? '', later)
        return pickUpLeft({ rows })
      })
      expect(pickedUp).to.equal(1)
      await settled()
      expect(received.length).to.equal(before + 2)
      expect(await pickUpLeft(scenario.database)).to.equal(0)
    })

  it('delivers the other events of a batch in which one cannot be delivered', async () => {
    const eventId = await scenario.database.transaction(async query => {
      const id = await writeEvent(query, account.id, EVENT)
      await queueFanOut(query, ['no event', id])
      return id
    })
    const found = async (): Promise<boolean> =>
      (await scenario.database.rows('SELECT FROM webhook_deliveries WHERE event_id = $1', [eventId])).length === 1
    await eventually(found, 'the delivery of the other')
    const left = () => scenario.database.rows(`SELECT attempts FROM graphile_worker.jobs WHERE key = 'no event'`)
    await eventually(async () => (await left()).length === 1, 'the job of the one')
    // The library's own remove_job leaves a job that runs at the moment.
    await scenario.database.rows(`DELETE FROM graphile_worker._private_jobs WHERE key = 'no event'`)
    await settled()
  })

  it('leaves alone what has a job, or is not due', async () => {
    await scenario.database.rows(
      `UPDATE webhook_deliveries SET status = 'pending', completed_at = NULL, next_attempt_at = now() + interval '1 hour'`,
    )
    expect(await pickUpLeft(scenario.database)).to.equal(0)
    await scenario.database.rows(
      `UPDATE webhook_deliveries SET status = 'failed', completed_at = now(), next_attempt_at = NULL`,
    )
  })
})
