/**
 * Delivery under kill: every event reaches every destination at least once under one id, and its mailbox, and none is missing.
 *
 * Two processes of `delivery` are killed with SIGKILL at random moments while events are written; receivers and the mail server are
 * real and count. Each request that arrived must be an attempt on record, since attempts are recorded before they leave.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { expect } from 'chai'
import { type Mailbox, openMailbox } from '#test/fixtures/mailbox.ts'
import {
  openWebhookScenario,
  type TestAccount,
  type TestWebhook,
  type WebhookScenario,
} from '#test/fixtures/webhook-scenario.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectFigure } from '#test/harness/figures.ts'
import { randomOf, type SeededRandom, seededRandom } from '#test/harness/seeded-random.ts'
import type { SpawnedRole } from '#test/harness/spawn-role.ts'
import { useServers } from '#test/harness/use-servers.ts'
import { deliveriesLeft } from './alert-ledgers.ts'
import { faultScale } from './scale.ts'

const ACCOUNTS = 5
const DESTINATIONS = 2
const DRAIN_LIMIT_MS = 120_000

describe('delivery under kill', function () {
  const scale = faultScale()
  const events = Math.min(10_000, Math.round((scale.items * scale.kills) / 10))
  this.timeout(scale.limitMs)
  const platform = useServers({ catalog: 'whole' })
  let scenario: WebhookScenario
  let mailbox: Mailbox
  before('receivers, a mail server and the API', async () => {
    mailbox = await openMailbox()
    scenario = await openWebhookScenario(platform, { receivers: DESTINATIONS, roles: ['api'] })
  })
  after('end of them', async () => {
    await scenario.close()
    await mailbox.close()
  })

  it(`${scale.kills} kills while ${events} events fire lose none, and repeat none under another id`, async () => {
    const random = seededRandom('delivery under kill')
    const accounts = await makeAccounts()
    const ending = new AbortController()
    // Two sources: what they are asked for interleaves by chance.
    const [killing, firing] = [randomOf(random.integer(0, 2 ** 31)), randomOf(random.integer(0, 2 ** 31))]
    const run = killRepeatedly(killing, ending.signal)
    const eventIds = await fire(firing, accounts, run.progress)
    const { kills } = await run.done
    console.log(`      ${kills} kills while ${events} events were written`)
    await drained()
    ending.abort()
    await run.stop()
    await checkWebhooks(eventIds)
    await checkMails(eventIds)
  })

  interface Owner {
    account: TestAccount
    webhooks: TestWebhook[]
  }

  async function makeAccounts(): Promise<Owner[]> {
    return Promise.all(
      Array.from({ length: ACCOUNTS }, async (_, n) => {
        const account = await scenario.account({ email: `trader-${n}@example.com` })
        const webhooks = await Promise.all(
          scenario.receivers.map((receiver, i) => scenario.webhook(account, receiver, { path: `/${n}/${i}` })),
        )
        return { account, webhooks }
      }),
    )
  }

  /** Writes the events over the time of the kills; resolves with the owner of each. */
  async function fire(random: SeededRandom, owners: Owner[], progress: () => number): Promise<Map<string, Owner>> {
    const eventIds = new Map<string, Owner>()
    const write = async (count: number) => {
      const chosen = Array.from({ length: count }, () => random.pick(owners))
      const ids = await scenario.events(chosen.map(({ account }) => account))
      for (const [i, id] of ids.entries()) eventIds.set(id, chosen[i] as Owner)
    }
    while (eventIds.size < events) {
      // Never ahead of the kills by more than a share, so that they meet work to the end.
      const due = Math.ceil(events * Math.min(1, progress() + 0.05))
      const batch = Math.min(random.integer(1, 50), due - eventIds.size)
      if (batch > 0) await write(batch)
      else await pause(20)
    }
    return eventIds
  }

  /** Keeps two processes running and kills one or the other after random times. */
  function killRepeatedly(random: SeededRandom, signal: AbortSignal) {
    const environment = {
      MARKETLOG_WEBHOOK_ALLOW: scenario.receivers.map(({ port }) => `127.0.0.1:${port}`).join(','),
      MARKETLOG_SMTP_URL: mailbox.url,
    }
    const running: SpawnedRole[] = []
    let kills = 0
    const run = async (): Promise<{ kills: number }> => {
      for (let slot = 0; slot < 2; slot++) running[slot] = await platform.spawnRole('delivery', environment)
      await running[0]?.baseUrl()
      while (kills < scale.kills && !signal.aborted) {
        await pause(random.integer(100, 3_000))
        const slot = random.integer(0, 1)
        running[slot]?.kill('SIGKILL')
        await running[slot]?.ended
        kills += 1
        running[slot] = await platform.spawnRole('delivery', environment)
      }
      return { kills }
    }
    return {
      progress: () => (scale.kills === 0 ? 1 : kills / scale.kills),
      done: run(),
      stop: async () => {
        for (const role of running) await role.stop()
      },
    }
  }

  async function drained(): Promise<void> {
    const startedAt = performance.now()
    const isSettled = async () => (await deliveriesLeft(scenario.database)) === 0
    await eventually(isSettled, 'all deliveries to be settled', DRAIN_LIMIT_MS)
    const value = (performance.now() - startedAt) / 1_000
    const limit = { atMost: DRAIN_LIMIT_MS / 1_000 }
    expectFigure({ test: 'delivery under kill', what: 'drained after the last kill', value, unit: 's', limit })
  }

  async function checkWebhooks(eventIds: ReadonlyMap<string, Owner>): Promise<void> {
    const database = platform.openDatabase({ statementLimitMs: 60_000 })
    const rows = await database.rows<{ id: string; event_id: string; endpoint_id: string; status: string; n: number }>(
      `SELECT d.id, d.event_id, d.endpoint_id, d.status, (SELECT count(*)::int FROM webhook_attempts a WHERE a.delivery_id = d.id) AS n
        FROM webhook_deliveries d`,
    )
    expect(rows.filter(({ status }) => status !== 'succeeded')).to.deep.equal([])
    const wanted = new Set([...eventIds].flatMap(([id, { webhooks }]) => webhooks.map(one => `${id} ${one.id}`)))
    expect(new Set(rows.map(row => `${row.event_id} ${row.endpoint_id}`)), 'deliveries').to.deep.equal(wanted)
    expect(rows).to.have.length(wanted.size)
    const received = scenario.receivers.flatMap(receiver => receiver.received)
    const byId = Map.groupBy(received, ({ headers }) => String(headers['x-svc-delivery-id']))
    for (const { id, event_id, n } of rows) {
      const requests = byId.get(id) ?? []
      expect(requests.length, `requests of ${id}, of which ${n} attempts are on record`).to.be.within(1, n)
      for (const { body } of requests) expect(JSON.parse(body).id).to.equal(event_id)
    }
    expect(byId.size, 'ids at the receivers').to.equal(rows.length)
    console.log(`      ${rows.length} deliveries, ${received.length - rows.length} repeats under their own id`)
  }

  async function checkMails(eventIds: ReadonlyMap<string, Owner>): Promise<void> {
    const rows = await scenario.database.rows<{ event_id: string; status: string }>(
      'SELECT event_id, status FROM email_deliveries',
    )
    expect(rows.filter(({ status }) => status !== 'succeeded')).to.deep.equal([])
    expect(new Set(rows.map(row => row.event_id))).to.deep.equal(new Set(eventIds.keys()))
    const ids = mailbox.mails.map(({ mail }) => String(mail.messageId))
    expect(new Set(ids).size, 'mails apart from repeats').to.equal(eventIds.size)
    console.log(`      ${eventIds.size} mails, ${ids.length - eventIds.size} repeats with their own Message-ID`)
  }
})
