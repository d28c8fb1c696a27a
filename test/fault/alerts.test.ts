/**
 * Alerts under kill: each fires exactly once, and its event reaches every destination.
 *
 * Two processes each of `alert-triggers` and `alerts` are killed with SIGKILL at random moments while
 * alerts are created and made to fire, some of them twice. Then all is drained and the alerts are compared with their events,
 * the events against what the destinations and the mail server got.
 */
import { expect } from 'chai'
import type { KafkaConnection } from '#infra/kafka/connection.ts'
import type { LagReader } from '#infra/kafka/lag.ts'
import type { Database } from '#infra/postgres/pool.ts'
import { type AlertMarket, openAlertMarket } from '#test/fixtures/alert-market.ts'
import { type Mailbox, openMailbox } from '#test/fixtures/mailbox.ts'
import { openReceiver, type Receiver } from '#test/fixtures/webhook-receiver.ts'
import { eventually } from '#test/harness/eventually.ts'
import { expectBalanced, type LedgerEntry, openLedger } from '#test/harness/ledger.ts'
import { randomOf, type SeededRandom, seededRandom } from '#test/harness/seeded-random.ts'
import { useServers } from '#test/harness/use-servers.ts'
import {
  deliveriesLeft,
  type EventRow,
  eventRows,
  hookEntries,
  lastRules,
  type Owner,
  openOwner,
  receivedBy,
  rulesToRelay,
  storedRules,
} from './alert-ledgers.ts'
import { type AlertLoad, startAlertLoad } from './alert-load.ts'
import { keepRunning, SAYS_WHY } from './keep-running.ts'
import { describeKills, type KillReport, killInRounds } from './kill-in-rounds.ts'
import { lagOf } from './lag.ts'
import { faultScale } from './scale.ts'

const ROLES = ['alert-triggers', 'alerts'] as const
/** A killed process holds what it was sending for 40 s; a second refusal waits for 30 s more. */
const DRAIN_LIMIT_MS = 120_000
/** One answer in so many is a 503, which is tried again. */
const REFUSED_ONE_IN = 200

describe('alerts under kill', function () {
  const scale = faultScale()
  const isLong = scale.kills >= 50
  const killsOfRole = Math.ceil(scale.kills / ROLES.length) + 1
  const leastAlerts = isLong ? 10_000 : 600
  /** Each owner has every third wave, of ten to fifty alerts. */
  const leastOfOwner = leastAlerts / 15 - 10
  this.timeout(scale.limitMs)
  const platform = useServers({ catalog: 'whole' })
  let kafka: KafkaConnection
  let database: Database
  let look: LagReader
  let market: AlertMarket
  let mailbox: Mailbox
  const receivers: Receiver[] = []

  before(async () => {
    kafka = platform.connect()
    database = platform.openDatabase({ connections: 12, statementLimitMs: 30_000 })
    look = await platform.openLagReader()
    market = await openAlertMarket(kafka)
    mailbox = await openMailbox()
    for (let each = 0; each < 3; each++) receivers.push(await openReceiver())
  })
  after(async () => {
    await market.close()
    await mailbox.close()
    for (const receiver of receivers) await receiver.close()
  })

  /** Three accounts: with two destinations, with one, and with mails alone. */
  async function openOwners(): Promise<Owner[]> {
    const owner = (...hooks: Receiver[]): Promise<Owner> =>
      openOwner(
        database,
        platform.config,
        hooks.map(({ url }, index) => `${url}/${index}`),
      )
    return [await owner(...receivers.slice(0, 2)), await owner(...receivers.slice(2)), await owner()]
  }

  async function waitingFor(role: (typeof ROLES)[number]): Promise<number> {
    if (role === 'alert-triggers') return lagOf(look, role)
    return (await lagOf(look, role)) + (await rulesToRelay(database)) + (await deliveriesLeft(database))
  }

  /** Resolves with all events when everything has come to its end. */
  async function drained(wanted: number): Promise<EventRow[]> {
    const events = await eventually(
      async () => {
        const found = await eventRows(database)
        if (found.length < wanted) throw new Error(`${found.length} of ${wanted}`)
        return found
      },
      'every event',
      DRAIN_LIMIT_MS,
    )
    for (const role of ROLES) {
      const isIdle = async () => {
        if ((await waitingFor(role)) === 0) return true
        throw new Error(JSON.stringify(await database.rows(LEFT)))
      }
      await eventually(isIdle, `nothing to wait for ${role}`, DRAIN_LIMIT_MS)
    }
    return events
  }

  /** Two processes of a role, killed while something waits for them; to be stopped once all is drained. */
  function keepAndKill(random: SeededRandom, role: (typeof ROLES)[number]) {
    const env = {
      MARKETLOG_WEBHOOK_ALLOW: receivers.map(({ port }) => `127.0.0.1:${port}`).join(','),
      MARKETLOG_SMTP_URL: mailbox.url,
    }
    const keep = () =>
      platform.keep(
        keepRunning({
          ...{ name: role, mayEnd: SAYS_WHY, random: randomOf(random.integer(0, 2 ** 31)) },
          start: () => platform.spawnRole(role, env),
        }),
      )
    const kept = [keep(), keep()]
    const done = killInRounds(randomOf(random.integer(0, 2 ** 31)), kept, {
      ...{ kills: killsOfRole, pauseMs: [300, 2_500] },
      waiting: () => waitingFor(role),
    })
    return { role, kept, done }
  }

  function answerSomeWith503(): void {
    for (const receiver of receivers) {
      receiver.answerWith((response, _request, n) => {
        response.writeHead(n % REFUSED_ONE_IN === 0 ? 503 : 200).end()
      })
    }
  }

  it('fire exactly once each, and reach every destination under one delivery id', async () => {
    const random = seededRandom('alerts under kill')
    const owners = await openOwners()
    answerSomeWith503()
    const load = startAlertLoad({
      database,
      market,
      random: randomOf(random.integer(0, 2 ** 31)),
      accountIds: owners.map(({ id }) => id),
      alertsPerSecond: isLong ? 80 : 40,
      least: leastAlerts,
    })
    const runs = ROLES.map(role => keepAndKill(random, role))
    const reports = await Promise.all(runs.map(({ done }) => done))
    await load.end()
    const events = await drained([...load.fires.values()].reduce((sum, times) => sum + times, 0))
    for (const { kept } of runs) for (const one of kept) await one.stop()

    expectBalanced({
      'alerts and their events': openLedger(
        firesOf(load),
        events.map(event => ({ key: event.alert_id, what: 'fired' })),
        leastAlerts,
      ),
      'events and destinations': openLedger(hookEntries(owners, events), receivedBy(receivers), 3 * leastOfOwner),
      'events and mails': openLedger(mailEntries(owners, events), mailsOf(mailbox), leastOfOwner),
      'rules in the log and alerts': openLedger(await storedRules(database), await lastRules(kafka), leastAlerts),
    })
    await expectRecorded(receivers)
    for (const [at, { role, kept }] of runs.entries()) {
      const report = reports[at] as KillReport
      console.log(describeKills(role, report))
      const killed = kept.reduce((sum, one) => sum + one.killed(), 0)
      expect([killed, report.kills], `processes of ${role} that were killed`).to.deep.equal([killsOfRole, killsOfRole])
      const ends = kept.reduce((sum, one) => sum + one.endedByThemselves(), 0)
      expect(ends, `ends of ${role} without a kill`).to.be.at.most(killed)
    }
  })

  /** Attempts are recorded before they leave, so each request that arrived is one of those on record; and all have succeeded. */
  async function expectRecorded(receivers: readonly Receiver[]): Promise<void> {
    const rows = await database.rows<{ id: string; status: string; attempts: number }>(
      `SELECT id, status, (SELECT count(*)::int FROM webhook_attempts WHERE delivery_id = d.id) AS attempts
        FROM webhook_deliveries d UNION ALL SELECT id, status, 1 FROM email_deliveries WHERE status <> 'succeeded'`,
    )
    expect(rows.filter(({ status }) => status !== 'succeeded')).to.deep.equal([])
    const requests = receivers.flatMap(({ received }) => received)
    const byId = Map.groupBy(requests, ({ headers }) => String(headers['x-svc-delivery-id']))
    for (const { id, attempts } of rows)
      expect(byId.get(id)?.length, `requests of ${id}, of which ${attempts} attempts are on record`).to.be.within(
        1,
        attempts,
      )
    expect(byId.size, 'ids at the receivers').to.equal(rows.length)
    console.log(`      ${rows.length} deliveries, ${requests.length - rows.length} repeats under their own id`)
  }
})

/** What delivery has left, for the message of a failure. */
const LEFT = `SELECT task_identifier AS what, count(*)::int, max(attempts) AS attempts, max(last_error) AS error, min(run_at) AS due
    FROM graphile_worker.jobs WHERE attempts < max_attempts GROUP BY 1
  UNION ALL SELECT 'webhook ' || coalesce(error, ''), count(*)::int, max(attempt_count), NULL, min(next_attempt_at)
    FROM webhook_deliveries WHERE status = 'pending' GROUP BY 1
  UNION ALL SELECT 'mail ' || coalesce(error, ''), count(*)::int, max(attempt_count), NULL, min(next_attempt_at)
    FROM email_deliveries WHERE status = 'pending' GROUP BY 1`

const firesOf = (load: AlertLoad): LedgerEntry[] =>
  [...load.fires].flatMap(([key, times]) => Array.from({ length: times }, () => ({ key, what: 'fired' })))

const mailEntries = (owners: readonly Owner[], events: readonly EventRow[]): LedgerEntry[] =>
  events
    .filter(event => owners.some(({ id, getsMail }) => getsMail && id === event.account_id))
    .map(event => ({ key: event.id, what: 'mailed' }))

/** What the mail server got, a repeated message once. */
function mailsOf({ mails }: Mailbox): LedgerEntry[] {
  const ids = mails.map(
    ({ mail }) => /^<alert-([0-9a-f-]{36})@/.exec(mail.messageId ?? '')?.[1] ?? String(mail.messageId),
  )
  return [...new Set(ids)].map(key => ({ key, what: 'mailed' }))
}
