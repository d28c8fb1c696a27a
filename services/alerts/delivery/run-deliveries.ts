/**
 * Jobs in, webhooks and e-mails out.
 *
 * Reads and writes Postgres alone; opens connections to the destinations of clients and to the mail server. Any number of
 * processes may run concurrently. Invariant: workers form lanes that never wait for one another - destinations, mails, and the
 * rest - and a lost Postgres or mail server ends nothing but the attempt.
 */
import { openMailer } from '#infra/mail/mailer.ts'
import { openOutbound } from '#infra/outbound/post.ts'
import { type JobLane, type JobTask, type RunningJobs, removeGivenUpJobs, runJobs } from '#infra/postgres/jobs.ts'
import { type Database, databaseUrl } from '#infra/postgres/pool.ts'
import { databaseName } from '#infra/runtime/config.ts'
import type { RoleContext } from '#infra/runtime/role.ts'
import { openSealedBox } from '#infra/runtime/sealed-box.ts'
import { openUuidSource } from '#infra/runtime/uuid-v7.ts'
import { SEND_MAIL } from '#services/accounts/reader.ts'
import { openUnsubscribeLinks } from '#services/accounts/unsubscribe/reader.ts'
import { fanOut } from './fan-out.ts'
import { DELIVER, FAN_OUT, HOUSEKEEPING, PICK_UP, SEND_ALERT_MAIL } from './jobs.ts'
import { type MailParts, sendAlertMail, sendQueuedMail } from './send-mails.ts'
import { type ServingParts, serveDestination } from './serve-destination.ts'
import { forgetOld, pickUpLeft } from './store.ts'

const JOB_CONNECTIONS = 10
/** A worker waits for answers most of its time; each one that is idle asks Postgres for jobs every two seconds. */
const WORKERS = { destinations: 48, mails: 3, rest: 4 }
const CLOCKS = [
  { task: HOUSEKEEPING, match: '17 * * * *' },
  { task: PICK_UP, match: '*/5 * * * *' },
]

/** Takes jobs until stopped. */
export async function runDeliveries(context: RoleContext, database: Database): Promise<RunningJobs> {
  const { config, log } = context
  const { postgres, postgresDirect = postgres } = config.servers
  const jobsUrl = databaseUrl(postgresDirect, databaseName(config.namespace))
  const box = config.secretKey === undefined ? undefined : openSealedBox(config.secretKey)
  const links = config.secretKey === undefined ? undefined : openUnsubscribeLinks(config.secretKey, config.baseUrl)
  const mailer = openMailer({ smtpUrl: config.smtpUrl, from: config.mailFrom })
  const { hook, mail } = openObservers(context)
  const serving: ServingParts = {
    database,
    outbound: openOutbound({ allow: config.webhookAllow, ports: config.webhookPorts, dns: config.webhookDns }),
    box,
    limitMs: config.webhookLimitMs,
    now: Date.now,
    chance: Math.random,
    observe: hook,
  }
  const host = new URL(config.baseUrl).hostname
  const mails: MailParts = { database, mailer, links, box, host, chance: Math.random, observe: mail }
  const tidy: JobTask = async (_payload, signal) => {
    const forgotten = await forgetOld(database, signal)
    await removeGivenUpJobs(jobsUrl, log)
    log.info({ forgotten }, 'old events and deliveries are deleted')
  }
  const jobs = await runJobs({
    url: jobsUrl,
    name: 'alerts',
    log,
    connections: JOB_CONNECTIONS,
    clocks: CLOCKS,
    lanes: lanesOf(serving, mails, tidy),
  })
  // The clock does it too, so a Postgres that is away now only delays it.
  await pickUpLeft(database).catch(error => log.warn({ err: error }, 'what an earlier process left is picked up later'))
  return {
    unavailable: jobs.unavailable,
    async stop() {
      await jobs.stop()
      mailer.close()
    },
  }
}

function lanesOf(serving: ServingParts, mails: MailParts, tidy: JobTask): JobLane[] {
  const newId = openUuidSource()
  const serve: JobTask = (payload, signal) => serveDestination(serving, member(payload, 'endpoint_id'), signal)
  return [
    {
      concurrency: WORKERS.rest,
      tasks: {
        [FAN_OUT]: payload => fanOut(serving.database, eventIdsOf(payload), { newId, now: serving.now() }),
        [HOUSEKEEPING]: tidy,
        [PICK_UP]: async () => void (await pickUpLeft(serving.database)),
      },
    },
    { concurrency: WORKERS.destinations, tasks: { [DELIVER]: serve } },
    {
      concurrency: WORKERS.mails,
      tasks: {
        [SEND_ALERT_MAIL]: payload => sendAlertMail(mails, member(payload, 'delivery_id')),
        [SEND_MAIL]: payload => sendQueuedMail(mails, payload),
      },
    },
  ]
}

function eventIdsOf(payload: unknown): string[] {
  const ids = (payload as { event_ids?: unknown } | null)?.event_ids
  if (!Array.isArray(ids) || ids.length === 0) throw new Error('the job lacks event_ids')
  return ids.map(String)
}

function member(payload: unknown, name: string): string {
  const value = (payload as Record<string, unknown> | null)?.[name]
  if (typeof value !== 'string') throw new Error(`the job lacks ${name}`)
  return value
}

function openObservers({ metrics }: RoleContext): {
  hook: ServingParts['observe']
  mail: MailParts['observe']
} {
  const attempts = metrics.histogram('webhook_attempt_seconds', 'Time of requests to webhooks', ['outcome'])
  const sent = metrics.counter('mails_total', 'Mails by what the mail server said', ['outcome'])
  return {
    hook: (outcome, seconds) => attempts.observe({ outcome }, seconds),
    mail: outcome => sent.inc({ outcome }),
  }
}
